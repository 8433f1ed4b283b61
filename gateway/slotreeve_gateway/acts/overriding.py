"""The acts that override single instances."""

from __future__ import annotations

from slotreeve.errors import SlotreeveError
from slotreeve.model.data_info import DataInfo
from slotreeve_client.administration import change_overrides
from slotreeve_protocol.overrides import Override, Overrides

from slotreeve_gateway.acts.actor import Actor
from slotreeve_gateway.acts.kinds import ClearOverride, OverrideInstance, Overriding, deed_of
from slotreeve_gateway.acts.outcome import ActOutcome


async def override(actor: Actor, act: Overriding, is_dry: bool) -> ActOutcome:
    """See :func:`slotreeve_gateway.acts.carry_out`."""
    service = DataInfo.parse(act.service).id
    wanted = None
    if isinstance(act, OverrideInstance):
        wanted = Override(act.weight, act.enabled, act.drain, act.note)

    def change(overrides: Overrides) -> Overrides:
        return overrides.changed(service, act.id, wanted)

    if is_dry:
        found, _ = await change_overrides(*actor.servers.asked, lambda overrides: overrides)
        change(found)
    else:
        actor.begins(deed_of(act))
        found, _ = await change_overrides(*actor.servers.asked, change)
    before = found.of(service).get(act.id)
    if before == wanted:
        return ActOutcome([f"Nothing changes: {act.id} {_said(before)} already."], None, False)
    sentences = [f"{act.id} {_said(wanted)} from now on; until now it {_said(before)}.", await _as_said(actor, act)]
    return ActOutcome(sentences, _undo(service, act.id, before), True)


def _undo(service: str, instance_id: str, before: Override | None) -> Overriding:
    if before is None:
        return ClearOverride(service, instance_id)
    return OverrideInstance(service, instance_id, before.weight, before.enabled, before.drain, before.note)


def _said(override: Override | None) -> str:
    if override is None:
        return "is as its provider says"
    words = ["is drained"] if override.drain else []
    if override.weight is not None:
        words.append(f"has the weight {override.weight}")
    if override.enabled is not None:
        words.append("is enabled" if override.enabled else "is disabled")
    return f"{' and '.join(words)}, whatever its provider says"


async def _as_said(actor: Actor, act: Overriding) -> str:
    """What its provider says now."""
    try:
        providers = (await actor.registry.view(act.service)).providers
    except SlotreeveError as error:
        return f"What its provider says is not known: {error}."
    said = next((one.said for one in providers if one.said is not None and one.said.id == act.id), None)
    if said is None:
        return "No instance with this id is registered now; one that registers meets the override."
    enabled = "enabled" if said.enabled else "not enabled"
    return f"Its provider says weight {said.weight}, {enabled}."
