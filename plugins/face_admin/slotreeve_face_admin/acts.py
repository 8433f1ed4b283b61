"""Acts of operators as requests: how an answer shows what came of one, and the request that undoes it. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta, Struct, to_builtins
from slotreeve_gateway.acts import Act, ActOutcome, command_of
from slotreeve_gateway.acts.kinds import (
    Ban,
    ClearOverride,
    ClientOff,
    ClientOn,
    DeleteValue,
    Drain,
    Freeze,
    HandOver,
    OverrideInstance,
    SetSetting,
    StartPush,
    StopPush,
    Thaw,
    Unban,
    UnsetSetting,
    WriteValue,
    text_of,
)
from slotreeve_gateway.rest import Answer
from slotreeve_gateway.rest.override_body import OverrideBody

PREFIX = "/v1/admin"
Method = Literal["PUT", "POST", "DELETE"]


class ActQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """Whether an act is carried out."""

    dry_run: Annotated[bool, Meta(description="true: only say what it would do on the state as it is.")] = False


class Undo(Struct):
    """The act that undoes another one, as a request and as a command line."""

    method: Method
    path: str
    body: dict[str, Any] | None
    command: str


class ActDone(Struct):
    """What an act did, or would do."""

    done: Annotated[bool, Meta(description="It was carried out and changed something.")]
    sentences: Annotated[list[str], Meta(description="What it does, for people.")]
    undo: Annotated[Undo | None, Meta(description="null: there is nothing to undo, or nothing undoes it.")]


class WriteDone(ActDone):
    """What writing a value did, or would do."""

    version: Annotated[int, Meta(description="Of the value afterwards.")]


ACT_ANSWERS: Mapping[int, Answer] = {
    200: Answer("What it did; with dry_run what it would do.", ActDone),
    415: Answer("The header Content-Type is not application/json; acts without a body need it, too."),
}


def act_done(outcome: ActOutcome, is_dry: bool) -> ActDone:
    """What the answer says."""
    undo = None if outcome.undo is None else undo_of(outcome.undo)
    done, sentences = outcome.changes and not is_dry, list(outcome.sentences)
    if outcome.version is not None:
        return WriteDone(done, sentences, undo, outcome.version)
    return ActDone(done, sentences, undo)


def undo_of(act: Act) -> Undo:
    """The request of an act, which undoes another one."""
    method, path, body = _request(act)
    return Undo(method, path, body, command_of(act))


def _request(act: Act) -> tuple[Method, str, dict[str, Any] | None]:
    match act:
        case Ban():
            return "PUT", _path("orders", "banned", act.server), None
        case Unban():
            return "DELETE", _path("orders", "banned", act.server), None
        case Drain():
            return "PUT", _path("drains", act.server), None
        case StopPush():
            return "PUT", _path("orders", "push-stop"), {"except": list(act.except_for)}
        case StartPush():
            return "DELETE", _path("orders", "push-stop"), None
        case Freeze():
            return "PUT", _path("orders", "freeze"), None
        case Thaw():
            return "DELETE", _path("orders", "freeze"), None
        case ClientOff():
            return "PUT", _path("orders", "clients-off", act.client), None
        case ClientOn():
            return "DELETE", _path("orders", "clients-off", act.client), None
        case HandOver():
            return "POST", _path("election", "resignation"), {"to": act.to}
        case WriteValue():
            body: dict[str, Any] = {} if act.expected_version is None else {"expected_version": act.expected_version}
            text = text_of(act.value)
            shown = {"base64": base64.b64encode(act.value).decode()} if text is None else {"value": text}
            return "PUT", _path("configuration", act.key), body | shown
        case DeleteValue():
            query = "" if act.expected_version is None else f"?expected_version={act.expected_version}"
            return "DELETE", _path("configuration", act.key) + query, None
        case SetSetting():
            return "PUT", _path("settings", act.name), {"value": act.value}
        case UnsetSetting():
            return "DELETE", _path("settings", act.name), None
        case OverrideInstance():
            place = _path("overrides", act.service, act.id)
            return "PUT", place, to_builtins(OverrideBody(act.weight, act.enabled, act.drain, act.note))
        case ClearOverride():
            return "DELETE", _path("overrides", act.service, act.id), None


def _path(*segments: str) -> str:
    """A path below ``/v1/admin``, with each segment encoded."""
    return "/".join([PREFIX, *(quote(segment, safe="") for segment in segments)])
