"""What operators ask for: each act as values, with the command line that does the same. Pure."""

from __future__ import annotations

import base64
import shlex
from typing import Annotated

from msgspec import Meta, Struct
from slotreeve.errors import ModelError
from slotreeve.model.text import check_text
from slotreeve_protocol.live_settings import Value

LONGEST_NAME = 255
"""Longest name of a server or a client in an order, in characters."""
MOST_NAMES = 1_000
"""Most clients that one order names."""
MOST_VALUE_BYTES = 256 * 1024
"""Largest value of the provided configuration; meta servers refuse larger ones."""
OWN_KEYS = "slotreeve."
"""Keys of the provided configuration that slotreeve keeps for itself begin so: orders, overrides, settings, tokens."""
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Names = Annotated[tuple[Name, ...], Meta(max_length=MOST_NAMES)]
ExpectedVersion = Annotated[int, Meta(ge=0, le=2**62)]


class _AnyAct(Struct, frozen=True, forbid_unknown_fields=True, tag_field="act"):
    """An act; its tag says which one, where it is written down."""


class Ban(_AnyAct, frozen=True, tag="ban"):
    """A server must hold no slots and no clients."""

    server: Name


class Drain(_AnyAct, frozen=True, tag="drain"):
    """As a ban, of a member that others can stand in for only."""

    server: Name


class Unban(_AnyAct, frozen=True, tag="unban"):
    """Takes a ban or a drain back."""

    server: Name


class StopPush(_AnyAct, frozen=True, tag="stop-push"):
    """Nobody is pushed to but these client ids and IP addresses."""

    except_for: Names = ()


class StartPush(_AnyAct, frozen=True, tag="start-push"):
    """Everybody is pushed to."""


class Freeze(_AnyAct, frozen=True, tag="freeze"):
    """No registration ends unless its provider withdraws it."""


class Thaw(_AnyAct, frozen=True, tag="thaw"):
    """Registrations end again as they do without an order."""


class ClientOff(_AnyAct, frozen=True, tag="client-off"):
    """What a client publishes is hidden: one with this id, or all at this IP address."""

    client: Name


class ClientOn(_AnyAct, frozen=True, tag="client-on"):
    """What a client publishes is shown again."""

    client: Name


class HandOver(_AnyAct, frozen=True, tag="resign"):
    """The meta leader resigns.

    Attributes:
        to: who is to lead next; empty: the election chooses.
        leader: only if this one leads; empty: whoever leads.
    """

    to: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    leader: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""


class WriteValue(_AnyAct, frozen=True, tag="write"):
    """A key of the provided configuration gets a value. ``expected_version``: only if this is the stored version; 0:
    only if there never was one; None: in any case."""

    key: str
    value: bytes
    expected_version: ExpectedVersion | None = None


class DeleteValue(_AnyAct, frozen=True, tag="delete"):
    """A key of the provided configuration loses its value. ``expected_version``: as of WriteValue."""

    key: str
    expected_version: ExpectedVersion | None = None


class OverrideInstance(_AnyAct, frozen=True, tag="override"):
    """An instance gets an override, whatever its provider says."""

    service: str
    id: str
    weight: int | None = None
    enabled: bool | None = None
    drain: bool = False
    note: str = ""


class ClearOverride(_AnyAct, frozen=True, tag="clear-override"):
    """An instance is again as its provider says."""

    service: str
    id: str


class SetSetting(_AnyAct, frozen=True, tag="set"):
    """A setting is changed while servers run."""

    name: Name
    value: Value


class UnsetSetting(_AnyAct, frozen=True, tag="unset"):
    """A setting is as the configuration of each server says again."""

    name: Name


ServerOrder = Ban | Drain | Unban
ClientOrder = ClientOff | ClientOn
Order = ServerOrder | ClientOrder | StopPush | StartPush | Freeze | Thaw
Write = WriteValue | DeleteValue
Overriding = OverrideInstance | ClearOverride
Setting = SetSetting | UnsetSetting
Act = Order | Write | Overriding | Setting | HandOver


def check_act(act: Act) -> None:
    """Check the names in an act.

    Raises:
        ModelError: one is blank or too long, or a value is too large.
    """
    match act:
        case Ban() | Drain() | Unban():
            _check_name("the name of the server", act.server)
        case ClientOff() | ClientOn():
            _check_name("the name of the client", act.client)
        case WriteValue() if len(act.value) > MOST_VALUE_BYTES:
            raise ModelError(f"the value has {len(act.value)} bytes; {MOST_VALUE_BYTES} is the limit")


def _check_name(what: str, name: str) -> None:
    check_text(what, name, LONGEST_NAME)
    if not name.strip():
        raise ModelError(f"{what} is blank; expected 1 to {LONGEST_NAME} characters")


def deed_of(act: Act) -> str:
    """What somebody does with an act, to follow the name of who does it."""
    match act:
        case Ban():
            return f"bans {act.server}"
        case Drain():
            return f"drains {act.server}"
        case Unban():
            return f"takes back the ban of {act.server}"
        case StopPush():
            return "stops pushing" + (f" except to {', '.join(sorted(act.except_for))}" if act.except_for else "")
        case StartPush():
            return "starts pushing"
        case Freeze():
            return "freezes ends"
        case Thaw():
            return "thaws ends"
        case ClientOff():
            return f"hides what {act.client} publishes"
        case ClientOn():
            return f"shows what {act.client} publishes"
        case HandOver():
            return f"asks {act.leader or 'the meta leader'} to resign{f' to {act.to}' if act.to else ''}"
        case WriteValue():
            return f"writes the configuration {act.key}"
        case DeleteValue():
            return f"deletes the configuration {act.key}"
        case OverrideInstance():
            return f"overrides {act.id} of {act.service}"
        case ClearOverride():
            return f"clears the override of {act.id} of {act.service}"
        case SetSetting():
            return f"sets {act.name} to {act.value}"
        case UnsetSetting():
            return f"unsets {act.name}"


def command_of(act: Act) -> str:
    """The command line for a shell that does the same."""
    match act:
        case Ban() | Unban():
            return _line(["admin", "ban" if isinstance(act, Ban) else "unban"], [act.server])
        case Drain():
            return _line(["drain", "--no-wait"], [act.server])
        case StopPush():
            return _line(["admin", "stop-push", *(f"--except={name}" for name in act.except_for)], [])
        case StartPush():
            return _line(["admin", "start-push"], [])
        case Freeze() | Thaw():
            return _line(["admin", "freeze" if isinstance(act, Freeze) else "thaw"], [])
        case ClientOff() | ClientOn():
            return _line(["admin", "client-off" if isinstance(act, ClientOff) else "client-on"], [act.client])
        case HandOver():
            return _line(["election", "resign", *([f"--to={act.to}"] if act.to else [])], [])
        case WriteValue() | DeleteValue():
            return _write_line(act)
        case OverrideInstance():
            return _line(["override", "set", "--anew", *_override_options(act)], [act.service, act.id])
        case ClearOverride():
            return _line(["override", "clear"], [act.service, act.id])
        case SetSetting():
            return _line(["settings", "set"], [act.name, str(act.value)])
        case UnsetSetting():
            return _line(["settings", "unset"], [act.name])


def _override_options(act: OverrideInstance) -> list[str]:
    options = [] if act.weight is None else [f"--weight={act.weight}"]
    if act.enabled is not None:
        options.append("--enabled" if act.enabled else "--disabled")
    if act.drain:
        options.append("--drain")
    return [*options, *([f"--note={act.note}"] if act.note else [])]


def _write_line(act: Write) -> str:
    expected = [] if act.expected_version is None else [f"--expected-version={act.expected_version}"]
    words = ["provide", "put", *expected]
    if isinstance(act, DeleteValue):
        return _line([*words, "--delete"], [act.key])
    text = text_of(act.value)
    if text is None or text == "-" or "\0" in text:
        encoded = shlex.quote(base64.b64encode(act.value).decode())
        return f"echo {encoded} | base64 -d | {_line(words, [act.key, '-'])}"
    return _line(words, [act.key, text])


def _line(words: list[str], names: list[str]) -> str:
    """The command with its options, then names that somebody else may have chosen."""
    dashed = ["--"] if any(name.startswith("-") for name in names) else []
    return shlex.join(["slotreeve", *words, *dashed, *names])


def text_of(value: bytes) -> str | None:
    """A value as text; None: it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
