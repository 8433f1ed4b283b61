"""The acts that write the provided configuration."""

from __future__ import annotations

import base64
import shlex
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from slotreeve.errors import Forbidden, VersionConflict
from slotreeve_client.administration import change_entry, get_entry
from slotreeve_gateway import ClusterServers, Right
from slotreeve_gateway.http import BadBody
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.provided import check_config_key
from starlette.responses import Response

from slotreeve_face_admin.acts import (
    ACT_ANSWERS,
    MOST_VALUE_BYTES,
    PREFIX,
    Actor,
    ActQuery,
    Undo,
    act_answer,
    command_of,
    path_of,
)
from slotreeve_face_admin.documents import OWN_KEYS, ValueShown
from slotreeve_face_admin.order_effects import counted

ExpectedVersion = Annotated[int, Meta(ge=0, le=2**62)]
_EXPECTED = "Only if this is the stored version; 0: only if there never was one."


class ValueBody(Struct, forbid_unknown_fields=True):
    """A value: one of value and base64."""

    value: Annotated[str | None, Meta(description="As text.")] = None
    base64: Annotated[bytes | None, Meta(description="Bytes in Base64.")] = None
    expected_version: Annotated[ExpectedVersion | None, Meta(description=_EXPECTED)] = None

    def given(self) -> bytes:
        """The value.

        Raises:
            BadBody: there are both or neither, or the value is too large.
        """
        if (self.value is None) == (self.base64 is None):
            raise BadBody("body: expected one of value and base64")
        found = self.base64 if self.value is None else self.value.encode()
        assert found is not None
        if len(found) > MOST_VALUE_BYTES:
            raise BadBody(f"body: the value has {len(found)} bytes; {MOST_VALUE_BYTES} is the limit", 413)
        return found


class DeleteQuery(ActQuery, forbid_unknown_fields=True, frozen=True):
    """Which version is deleted, and whether it is."""

    expected_version: Annotated[ExpectedVersion | UnsetType, Meta(description=_EXPECTED)] = UNSET


class Configuring:
    """Writes values through the meta leader. ``gateway`` is the name of this gateway, for logs."""

    def __init__(self, servers: ClusterServers, gateway: str) -> None:
        self._servers, self._gateway = servers, gateway

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may write."""
        path = f"{PREFIX}/configuration/{{key}}"
        answers = {**ACT_ANSWERS, 409: Answer("The stored version is another one.")}
        put, delete = "Write a value, which clients that watch the key are sent.", "Delete a value."
        right = Right.OPERATE
        return [
            RestOperation(
                "PUT", path, "putConfiguration", put, self._put, answers, right, ActQuery, ValueBody, for_all=True
            ),
            RestOperation(
                "DELETE", path, "deleteConfiguration", delete, self._delete, answers, right, DeleteQuery, for_all=True
            ),
        ]

    async def _put(self, call: RestCall) -> Response:
        body: ValueBody = call.body
        return await self._write(call, body.given(), body.expected_version)

    async def _delete(self, call: RestCall) -> Response:
        query: DeleteQuery = call.query
        return await self._write(call, None, None if query.expected_version is UNSET else query.expected_version)

    async def _write(self, call: RestCall, value: bytes | None, expected: int | None) -> Response:
        query: ActQuery = call.query
        key = call.names["key"]
        check_config_key(key)
        if key.startswith(OWN_KEYS):
            raise Forbidden(f"{key!r} belongs to slotreeve itself; orders, overrides and tokens have ways of their own")

        def change(entry: ConfigEntry) -> bytes | None:
            if expected not in (None, entry.version):
                raise VersionConflict(f"{key!r} has the version {entry.version}, and the request expects {expected}")
            return value

        actor = Actor(call, self._servers, self._gateway)
        if query.dry_run:
            before = await get_entry(*actor.servers.asked, key)
            after = ConfigEntry(key, change(before), before.version + 1)
        else:
            actor.begins(f"{'deletes' if value is None else 'writes'} the configuration {key}")
            before, after = await change_entry(*actor.servers.asked, key, change)
        if before.value == after.value:
            return act_answer(False, [f"Nothing changes: {key} {_said(before)} already."], None)
        deed = "Writing" if after.value is not None else "Deleting"
        sentence = f"{deed} {key} makes version {after.version}, which {_said(after)}"
        was = f"; version {before.version} {_said(before)}" if before.version else ""
        return act_answer(not query.dry_run, [f"{sentence}{was}."], value_undo(before, after))


def _said(entry: ConfigEntry) -> str:
    return "has no value" if entry.value is None else f"has {counted(len(entry.value), 'byte')}"


def value_undo(before: ConfigEntry, after: ConfigEntry) -> Undo:
    """The act that gives a key the value back that it had before, unless somebody else has written it meanwhile."""
    key, version = after.key, after.version
    words = ["slotreeve", "provide", "put", f"--expected-version={version}"]
    path = path_of("configuration", key)
    if before.value is None:
        return Undo("DELETE", f"{path}?expected_version={version}", None, command_of([*words, "--delete"], [key]))
    shown = ValueShown.of(before)
    body: dict[str, Any] = {"expected_version": version}
    if shown.value is not None:
        body["value"] = shown.value
    else:
        body["base64"] = base64.b64encode(before.value).decode()
    if shown.value is None or shown.value == "-" or "\0" in shown.value:
        encoded = shlex.quote(base64.b64encode(before.value).decode())
        return Undo("PUT", path, body, f"echo {encoded} | base64 -d | {command_of(words, [key, '-'])}")
    return Undo("PUT", path, body, command_of(words, [key, shown.value]))
