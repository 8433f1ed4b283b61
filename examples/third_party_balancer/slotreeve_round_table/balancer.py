"""The balancer ``round_table``."""

from collections.abc import Sequence

from slotreeve import Draft, Limits, Plan, Server, SlotTable


class RoundTable:
    """Hands one slot a step from who leads most to who leads least, which becomes its follower first."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """As :class:`slotreeve.ports.Balancer` says."""
        draft = Draft(table, servers)
        # Not draft.least_leaders(): among equals it prefers who follows least, and so a copy would change who is next.
        poorest = min(draft.servers, key=lambda name: (draft.leads(name), name))
        richest = max(draft.servers, key=lambda name: draft.leads(name))
        if draft.leads(richest) - draft.leads(poorest) < 2:
            return None
        why = f"{richest} leads {draft.leads(richest)}, {poorest} leads {draft.leads(poorest)}"
        slot = min(draft.led_by(richest), key=lambda slot: (poorest not in draft.followers(slot), slot))
        if draft.followers(slot) and poorest not in draft.followers(slot):
            draft.follow(slot, poorest, f"to lead it next, as {why}", instead_of=min(draft.followers(slot)))
            return draft.plan()
        draft.lead(slot, poorest, why)
        return draft.plan()
