"""The acts that write the provided configuration."""

from __future__ import annotations

from slotreeve.errors import Forbidden, VersionConflict
from slotreeve_client.administration import change_entry, get_entry
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.provided import check_config_key

from slotreeve_gateway.acts.actor import Actor
from slotreeve_gateway.acts.kinds import OWN_KEYS, DeleteValue, Write, WriteValue, deed_of
from slotreeve_gateway.acts.order_effects import counted
from slotreeve_gateway.acts.outcome import ActOutcome


async def write(actor: Actor, act: Write, is_dry: bool) -> ActOutcome:
    """See :func:`slotreeve_gateway.acts.carry_out`."""
    key, value = act.key, act.value if isinstance(act, WriteValue) else None
    check_writable(key)

    def change(entry: ConfigEntry) -> bytes | None:
        if act.expected_version not in (None, entry.version):
            was = f"{key!r} has the version {entry.version}, and the request expects {act.expected_version}"
            raise VersionConflict(was)
        return value

    if is_dry:
        before = await get_entry(*actor.servers.asked, key)
        after = ConfigEntry(key, change(before), before.version + 1)
    else:
        actor.begins(deed_of(act))
        before, after = await change_entry(*actor.servers.asked, key, change)
    if before.value == after.value:
        return ActOutcome([f"Nothing changes: {key} {_said(before)} already."], None, False, before.version)
    deed = "Writing" if after.value is not None else "Deleting"
    sentence = f"{deed} {key} makes version {after.version}, which {_said(after)}"
    was = f"; version {before.version} {_said(before)}" if before.version else ""
    return ActOutcome([f"{sentence}{was}."], value_undo(before, after), True, after.version)


def check_writable(key: str) -> None:
    """Check a key that an operator names.

    Raises:
        ModelError: it is no key.
        Forbidden: it belongs to slotreeve itself.
    """
    check_config_key(key)
    if key.startswith(OWN_KEYS):
        raise Forbidden(
            f"{key!r} belongs to slotreeve itself; orders, overrides, settings and tokens have ways of their own"
        )


def _said(entry: ConfigEntry) -> str:
    return "has no value" if entry.value is None else f"has {counted(len(entry.value), 'byte')}"


def value_undo(before: ConfigEntry, after: ConfigEntry) -> Write:
    """The act that gives a key the value back that it had before, unless somebody else has written it meanwhile."""
    if before.value is None:
        return DeleteValue(after.key, after.version)
    return WriteValue(after.key, before.value, after.version)
