"""The acts that change settings while servers run."""

from __future__ import annotations

from slotreeve_client.administration import change_settings
from slotreeve_client.setting_reports import setting_change, settings_in_force
from slotreeve_protocol.live_settings import LiveSettings

from slotreeve_gateway.acts.actor import Actor
from slotreeve_gateway.acts.kinds import SetSetting, Setting, UnsetSetting, deed_of
from slotreeve_gateway.acts.outcome import ActOutcome


async def change_setting(actor: Actor, act: Setting, is_dry: bool) -> ActOutcome:
    """See :func:`slotreeve_gateway.acts.carry_out`."""
    asked, value = actor.servers.asked, act.value if isinstance(act, SetSetting) else None
    before, _ = await change_settings(*asked, lambda table: table)
    sentences = setting_change(await settings_in_force(*asked, [actor.own_settings()]), before, act.name, value)
    after = before.changed(act.name, value)
    if not is_dry:
        actor.begins(deed_of(act))
        before, after = await change_settings(*asked, lambda table: table.changed(act.name, value))
    return ActOutcome(sentences, setting_undo(before, after, act.name), before != after)


def setting_undo(before: LiveSettings, after: LiveSettings, name: str) -> Setting | None:
    """The act that makes the table ``before`` of the one ``after``; None: they are the same, or what was there may not
    be set."""
    if before == after:
        return None
    if name not in before.values:
        return UnsetSetting(name)
    was = before.good().get(name)
    return None if was is None else SetSetting(name, was)
