"""What operators do: requests become acts, which the gateway carries out."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field
from slotreeve_gateway import Gateway, Right
from slotreeve_gateway.acts import Act, Actor, carry_out, preview
from slotreeve_gateway.acts.kinds import (
    LONGEST_NAME,
    MOST_VALUE_BYTES,
    Ban,
    ClearOverride,
    ClientOff,
    ClientOn,
    DeleteValue,
    Drain,
    ExpectedVersion,
    Freeze,
    HandOver,
    Names,
    OverrideInstance,
    SetSetting,
    StartPush,
    StopPush,
    Thaw,
    Unban,
    UnsetSetting,
    WriteValue,
)
from slotreeve_gateway.http import BadBody
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation, json_answer
from slotreeve_gateway.rest.override_body import OverrideBody
from slotreeve_protocol.live_settings import Value
from starlette.responses import Response

from slotreeve_face_admin.acts import ACT_ANSWERS, PREFIX, ActQuery, WriteDone, act_done
from slotreeve_face_admin.documents import encode

_EXPECTED = "Only if this is the stored version; 0: only if there never was one."


class PushStopBody(Struct, forbid_unknown_fields=True):
    """Who is pushed to although pushing is stopped."""

    except_for: Annotated[Names, Meta(description="Client ids or IP addresses.")] = field(default=(), name="except")


class ResignBody(Struct, forbid_unknown_fields=True):
    """Who leads next."""

    to: Annotated[
        str, Meta(max_length=LONGEST_NAME, description="A meta server; empty: the election chooses the next leader.")
    ] = ""


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


class SettingBody(Struct, forbid_unknown_fields=True):
    """What a setting is changed to."""

    value: Annotated[Value, Meta(description="A number, or a word, within the bounds that the setting has.")]


class Operating:
    """Carries acts out in the name of the caller."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may do."""
        server, client, push = "orders/banned/{node}", "orders/clients-off/{client}", "orders/push-stop"
        key, next_leader = "configuration/{key}", "election/resignation"
        stop = "Stop pushing to all clients except the named ones; publishing and lookups go on."
        drain = "Let a server hand over what it holds. As a ban, for a member that others can stand in for only."
        resign = "Ask the meta leader to resign; it finishes writes under way first."
        write = "Write a value, which clients that watch the key are sent."
        setting, unset = "settings/{setting}", "Take a change of a setting back: it is as configured again."
        instance, clear = "overrides/{service}/{instance}", "Let an instance be as its provider says."
        override = "Override what a provider says of an instance, instead of what was overridden before."
        gone = {404: Answer("There is no such server.")}
        written = {200: Answer("What it did; with dry_run what it would do.", WriteDone)}
        written |= {409: Answer("The stored version is another one.")}
        return [
            _act("PUT", server, "ban", "Ban a server: it must hold no slots and no clients.", self._ban),
            _act("DELETE", server, "unban", "Take a ban back, or a drain.", self._unban),
            _act("PUT", "drains/{node}", "drain", drain, self._drain, more=gone),
            _act("PUT", push, "stopPush", stop, self._stop_push, PushStopBody),
            _act("DELETE", push, "startPush", "Push to all clients again.", self._start_push),
            _act("PUT", "orders/freeze", "freeze", "Let no registration end on its own.", self._freeze),
            _act("DELETE", "orders/freeze", "thaw", "Let registrations end again.", self._thaw),
            _act("PUT", client, "clientOff", "Hide what a client publishes from every subscriber.", self._hide),
            _act("DELETE", client, "clientOn", "Show what a client publishes again.", self._show),
            _act("PUT", key, "putConfiguration", write, self._put, ValueBody, more=written),
            _act("DELETE", key, "deleteConfiguration", "Delete a value.", self._delete, more=written),
            _act("PUT", instance, "putOverride", override, self._override, OverrideBody),
            _act("DELETE", instance, "deleteOverride", clear, self._clear),
            _act("PUT", setting, "putSetting", "Change a setting while servers run.", self._set, SettingBody),
            _act("DELETE", setting, "deleteSetting", unset, self._unset),
            _act("POST", next_leader, "resign", resign, self._resign, ResignBody),
        ]

    async def _ban(self, call: RestCall) -> Response:
        return await self._do(call, Ban(call.names["node"]))

    async def _unban(self, call: RestCall) -> Response:
        return await self._do(call, Unban(call.names["node"]))

    async def _drain(self, call: RestCall) -> Response:
        return await self._do(call, Drain(call.names["node"]))

    async def _stop_push(self, call: RestCall) -> Response:
        body: PushStopBody = call.body
        return await self._do(call, StopPush(body.except_for))

    async def _start_push(self, call: RestCall) -> Response:
        return await self._do(call, StartPush())

    async def _freeze(self, call: RestCall) -> Response:
        return await self._do(call, Freeze())

    async def _thaw(self, call: RestCall) -> Response:
        return await self._do(call, Thaw())

    async def _hide(self, call: RestCall) -> Response:
        return await self._do(call, ClientOff(call.names["client"]))

    async def _show(self, call: RestCall) -> Response:
        return await self._do(call, ClientOn(call.names["client"]))

    async def _put(self, call: RestCall) -> Response:
        body: ValueBody = call.body
        return await self._do(call, WriteValue(call.names["key"], body.given(), body.expected_version))

    async def _delete(self, call: RestCall) -> Response:
        query: DeleteQuery = call.query
        expected = None if query.expected_version is UNSET else query.expected_version
        return await self._do(call, DeleteValue(call.names["key"], expected))

    async def _override(self, call: RestCall) -> Response:
        body: OverrideBody = call.body
        wanted = (body.weight, body.enabled, body.drain, body.note)
        return await self._do(call, OverrideInstance(call.service, call.names["instance"], *wanted))

    async def _clear(self, call: RestCall) -> Response:
        return await self._do(call, ClearOverride(call.service, call.names["instance"]))

    async def _set(self, call: RestCall) -> Response:
        body: SettingBody = call.body
        return await self._do(call, SetSetting(call.names["setting"], body.value))

    async def _unset(self, call: RestCall) -> Response:
        return await self._do(call, UnsetSetting(call.names["setting"]))

    async def _resign(self, call: RestCall) -> Response:
        body: ResignBody = call.body
        return await self._do(call, HandOver(body.to))

    async def _do(self, call: RestCall, act: Act) -> Response:
        query: ActQuery = call.query
        client = call.request.client
        actor = Actor(call.caller, client.host if client is not None else None, self._gateway)
        outcome = await (preview if query.dry_run else carry_out)(actor, act)
        return json_answer(encode(act_done(outcome, query.dry_run)))


def _act(
    method: str,
    path: str,
    name: str,
    summary: str,
    handler: Handler,
    body: type[Struct] | None = None,
    more: dict[int, Answer] | None = None,
) -> RestOperation[Handler]:
    query = DeleteQuery if name == "deleteConfiguration" else ActQuery
    answers, place = {**ACT_ANSWERS, **(more or {})}, f"{PREFIX}/{path}"
    return RestOperation(method, place, name, summary, handler, answers, Right.OPERATE, query, body, for_all=True)
