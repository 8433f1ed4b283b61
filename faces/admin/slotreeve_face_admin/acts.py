"""What all acts of operators have in common: dry runs, the answer with its undo, and who has asked for it."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta, Struct
from slotreeve.errors import ModelError
from slotreeve.model.text import check_text
from slotreeve_gateway import ClusterServers
from slotreeve_gateway.access import ANONYMOUS
from slotreeve_gateway.rest import Answer, RestCall, json_answer
from starlette.responses import Response

from slotreeve_face_admin.documents import encode

log = logging.getLogger("slotreeve.face.admin")

PREFIX = "/v1/admin"
LONGEST_NAME = 255
"""Longest name of a server or a client in an order, in characters."""
MOST_VALUE_BYTES = 256 * 1024
"""Largest value of the provided configuration; meta servers refuse larger ones."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]").sub


class ActQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """Whether an act is carried out."""

    dry_run: Annotated[bool, Meta(description="true: only say what it would do on the state as it is.")] = False


class Undo(Struct):
    """The act that undoes another one, as a request and as a command line."""

    method: Literal["PUT", "POST", "DELETE"]
    path: str
    body: dict[str, Any] | None
    command: str


class ActDone(Struct):
    """What an act did, or would do."""

    done: Annotated[bool, Meta(description="It was carried out and changed something.")]
    sentences: Annotated[list[str], Meta(description="What it does, for people.")]
    undo: Annotated[Undo | None, Meta(description="null: there is nothing to undo, or nothing undoes it.")]


ACT_ANSWERS: Mapping[int, Answer] = {
    200: Answer("What it did; with dry_run what it would do.", ActDone),
    415: Answer("The header Content-Type is not application/json; acts without a body need it, too."),
}


class Actor:
    """Who asks for an act, and the way to the servers in that name.

    Attributes:
        name: the token with the address of the caller.
        servers: requests over them bear that name.
    """

    def __init__(self, call: RestCall, servers: ClusterServers, gateway: str) -> None:
        caller, client = call.caller.name, call.request.client
        who = ANONYMOUS if caller == ANONYMOUS else f"token {caller}"
        self.name = f"{who} at {client.host if client is not None else 'an unknown address'}"
        self.servers = servers.on_behalf(f"{self.name} (by {gateway})")

    def begins(self, deed: str) -> None:
        """Log what this caller does, before it is done: the answer of a server may be lost."""
        log.warning("%s %s", in_a_line(self.name), in_a_line(deed))


def act_answer(done: bool, sentences: list[str], undo: Undo | None) -> Response:
    """The answer of an act."""
    return json_answer(encode(ActDone(done, sentences, undo)))


def path_of(*segments: str) -> str:
    """A path below ``/v1/admin``, with each segment encoded."""
    return "/".join([PREFIX, *(quote(segment, safe="") for segment in segments)])


def command_of(words: list[str], names: list[str]) -> str:
    """A command line for a shell: the command with its options, then names that somebody else may have chosen."""
    dashed = ["--"] if any(name.startswith("-") for name in names) else []
    return shlex.join([*words, *dashed, *names])


def in_a_line(text: str) -> str:
    """The text with control characters escaped: what others have named must not write lines of the log."""
    return _CONTROL(lambda match: match[0].encode("unicode_escape").decode(), text)


def check_name(what: str, name: str) -> None:
    """Check the name of a server or a client, which an order is to have.

    Raises:
        ModelError: it is blank or too long.
    """
    check_text(what, name, LONGEST_NAME)
    if not name.strip():
        raise ModelError(f"{what} is blank; expected 1 to {LONGEST_NAME} characters")
