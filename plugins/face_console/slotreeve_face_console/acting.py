"""The pages on which operators act: what an act would do, whether it is to be done, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from slotreeve.errors import Forbidden, RequestError
from slotreeve.model.data_info import DataInfo, short_name
from slotreeve_client.administration import get_entry
from slotreeve_gateway import Caller, Gateway
from slotreeve_gateway.acts import Act, Actor, ActOutcome, carry_out, command_of, preview
from slotreeve_gateway.acts.kinds import DeleteValue, WriteValue, text_of
from slotreeve_gateway.acts.writing import check_writable
from slotreeve_gateway.known_hosts import require_own_origin
from slotreeve_protocol.overrides import Override
from starlette.requests import Request
from starlette.responses import Response

from slotreeve_face_console.act_forms import Fields, act_of, packed, page_of_act, takes_away, title_of, unpacked
from slotreeve_face_console.answers import html
from slotreeve_face_console.entries import may_be_secret
from slotreeve_face_console.forms import cookies_of, form_of, is_secure, queries_of, setting
from slotreeve_face_console.login import Login
from slotreeve_face_console.rendering import Rendering, service_path
from slotreeve_face_console.routing import PageHandler
from slotreeve_face_console.sessions import PATH

MOST_ACT_BYTES = 1024 * 1024
"""Largest form: a value of the largest size, with each byte written as three."""
MOST_EDITED = 64 * 1024
"""Longer values are not put into a form, in bytes."""


class ActPages:
    """Previews acts, carries them out, and shows how to undo them. All need the right to operate everything.

    Args:
        gateway: carries them out.
        rendering: makes HTML.
        login: knows who asks, and its sessions which forms are ours.
    """

    def __init__(self, gateway: Gateway, rendering: Rendering, login: Login) -> None:
        self._gateway, self._rendering, self._login = gateway, rendering, login

    def handlers(self) -> Mapping[str, Mapping[str, PageHandler]]:
        """What answers, by path and method."""
        return {f"{PATH}/act": {"GET": self._asked, "POST": self._sent}}

    async def _asked(self, request: Request) -> Response:
        caller, fields = self._login.operator(request), queries_of(request)
        kind = _first(fields, "act")
        if kind == "write" and "value" not in fields:
            return await self._value_form(request, _first(fields, "key"))
        if kind == "override" and "asked" not in fields:
            return await self._override_form(request, _first(fields, "service"), _first(fields, "id"))
        return await self._previewed(request, caller, _act_in(fields))

    async def _sent(self, request: Request) -> Response:
        caller = self._login.operator(request)
        require_own_origin(request.headers.get("origin"), request.headers.get("host"))
        fields = await form_of(request, MOST_ACT_BYTES)
        if not self._login.sessions.is_own_act(cookies_of(request), _first(fields, "form")):
            raise Forbidden("the form is too old, or the browser keeps no cookies: load the page again, and begin anew")
        act, step = _act_in(fields), _first(fields, "step")
        if step == "preview":
            return await self._previewed(request, caller, act)
        if step != "do":
            raise RequestError(f"step is {step[:20]!r}; expected preview or do")
        outcome = await carry_out(self._actor(request, caller), act)
        return self._page(request, "act.html", self._shown(act, outcome, True))

    async def _previewed(self, request: Request, caller: Caller, act: Act) -> Response:
        if isinstance(act, DeleteValue) and act.expected_version is None:
            check_writable(act.key)
            entry = await get_entry(*self._gateway.servers.asked, act.key)
            act = replace(act, expected_version=entry.version)
        outcome = await preview(self._actor(request, caller), act)
        return self._page(request, "act.html", self._shown(act, outcome, False))

    def _actor(self, request: Request, caller: Caller) -> Actor:
        return Actor(caller, request.client.host if request.client is not None else None, self._gateway)

    @staticmethod
    def _shown(act: Act, outcome: ActOutcome, was_asked: bool) -> Mapping[str, object]:
        """What a page shows of an act. ``was_asked``: it has been carried out."""
        undo, sentences = outcome.undo, list(outcome.sentences)
        if isinstance(undo, WriteValue) and may_be_secret(undo.key):
            undo = None
            sentences.append("This page does not keep the value before, which by its key may be a secret: no undo.")
        value = None
        if isinstance(act, WriteValue) and not may_be_secret(act.key):
            value = text_of(act.value)
        return {
            "title": title_of(act),
            "sentences": sentences,
            "changes": outcome.changes,
            "is_done": was_asked,
            "value": value,
            "command": "" if isinstance(act, WriteValue) else command_of(act),
            "packed": packed(act),
            "takes_away": takes_away(act),
            "undo": None if undo is None else packed(undo),
            "undo_title": "" if undo is None else title_of(undo),
            "back": page_of_act(act),
        }

    async def _value_form(self, request: Request, key: str) -> Response:
        check_writable(key)
        entry = await get_entry(*self._gateway.servers.asked, key)
        notes = [] if entry.value is not None else ["It has no value now."]
        text = text_of(entry.value) if entry.value is not None else ""
        if entry.value is not None and (may_be_secret(key) or len(entry.value) > MOST_EDITED):
            text = ""
            notes.append("The present value is not shown: by its key it may be a secret, or it is long.")
        elif text is None:
            notes.append("The present value is no text; what you write replaces it.")
        values = {"title": f"Write {key}", "key": key, "version": entry.version, "text": text or "", "notes": notes}
        return self._page(request, "act_value.html", values)

    async def _override_form(self, request: Request, service: str, instance_id: str) -> Response:
        name = DataInfo.parse(service).id
        override = (await self._gateway.registry.overrides(name)).get(instance_id)
        values = {
            "title": f"Override {instance_id} of {short_name(name)}",
            "service": name,
            "id": instance_id,
            "override": override or Override(),
            "is_overridden": override is not None,
            "back": service_path(name),
        }
        return self._page(request, "act_override.html", values)

    def _page(self, request: Request, template: str, values: Mapping[str, object]) -> Response:
        form, cookie = self._login.sessions.act_form(cookies_of(request), is_secure(request))
        common = {"who": self._login.who(request), "retries": False, "form": form}
        return html(self._rendering.page(template, {**common, **values}), headers=setting(cookie))


def _act_in(fields: Fields) -> Act:
    """The act that fields name, without those that belong to the form. Raises RequestError."""
    if text := _first(fields, "packed"):
        return unpacked(text)
    return act_of({name: given for name, given in fields.items() if name not in ("form", "step", "asked")})


def _first(fields: Mapping[str, Sequence[str]], name: str) -> str:
    return fields[name][0] if fields.get(name) else ""
