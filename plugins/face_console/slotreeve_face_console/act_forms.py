"""Acts as fields of forms, and the words for them. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence

import msgspec
from slotreeve.errors import ModelError, RequestError
from slotreeve.model.data_info import short_name
from slotreeve_gateway.acts import Act
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
)
from slotreeve_protocol.live_settings import Value, live_setting

from slotreeve_face_console.rendering import service_path

Fields = Mapping[str, Sequence[str]]
_decoder: msgspec.json.Decoder[Act] = msgspec.json.Decoder(Act)
_NAMES = re.compile(r"[\s,]+").split
_LISTS = {"except_for"}


def act_of(fields: Fields) -> Act:
    """The act that a link or a form asks for: ``act`` says which one, the other fields are as in
    :mod:`slotreeve_gateway.acts.kinds`. Empty ones count as not given.

    Raises:
        RequestError: there is no such act, or a field is wrong.
    """
    values: dict[str, object] = {}
    for name, given in fields.items():
        if name in _LISTS:
            values[name] = [part for text in given for part in _NAMES(text) if part]
        elif name == "value":
            is_setting = list(fields.get("act", ())) == ["set"]
            values[name] = _setting(fields, given[0]) if is_setting else given[0].replace("\r\n", "\n").encode()
        elif given[0].strip():
            values[name] = given[0]
    try:
        act: Act = msgspec.convert(values, Act, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"this is no act: {str(error)[:200]}") from None
    return act


def _setting(fields: Fields, text: str) -> Value:
    try:
        return live_setting("".join(fields.get("name", ()))).parse(text.strip())
    except ModelError as error:
        raise RequestError(str(error)) from None


def packed(act: Act) -> str:
    """The act as one field, which no browser changes."""
    return base64.urlsafe_b64encode(msgspec.json.encode(act)).rstrip(b"=").decode()


def unpacked(text: str) -> Act:
    """The act in such a field.

    Raises:
        RequestError: it is none.
    """
    try:
        return _decoder.decode(base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except (msgspec.DecodeError, binascii.Error, ValueError, RecursionError):
        raise RequestError("the form holds no act; go back, load the page again, and begin anew") from None


def title_of(act: Act) -> str:
    """What an act does, in some words that begin with a verb."""
    match act:
        case Ban():
            return f"Ban {act.server}"
        case Drain():
            return f"Drain {act.server}"
        case Unban():
            return f"Take back the ban of {act.server}"
        case StopPush():
            return "Stop pushing"
        case StartPush():
            return "Start pushing"
        case Freeze():
            return "Freeze ends"
        case Thaw():
            return "Thaw ends"
        case ClientOff():
            return f"Hide what {act.client} publishes"
        case ClientOn():
            return f"Show what {act.client} publishes"
        case HandOver():
            return f"Let {act.leader or 'the meta leader'} resign{f' to {act.to}' if act.to else ''}"
        case WriteValue():
            return f"Write {act.key}"
        case DeleteValue():
            return f"Remove {act.key}"
        case OverrideInstance():
            return f"Override {act.id} of {short_name(act.service)}"
        case ClearOverride():
            return f"Clear the override of {act.id} of {short_name(act.service)}"
        case SetSetting():
            return f"Set {act.name} to {act.value}"
        case UnsetSetting():
            return f"Unset {act.name}"


def takes_away(act: Act) -> bool:
    """Whether an act takes something away from servers, clients or subscribers."""
    return not isinstance(act, Unban | StartPush | Freeze | ClientOn | WriteValue | ClearOverride)


def page_of_act(act: Act) -> str:
    """The page of the console that shows what an act changes."""
    match act:
        case Ban() | Drain() | Unban():
            return "/ui/servers"
        case HandOver():
            return "/ui/election"
        case WriteValue() | DeleteValue() | SetSetting() | UnsetSetting():
            return "/ui/configuration"
        case OverrideInstance() | ClearOverride():
            return service_path(act.service)
        case _:
            return "/ui/"
