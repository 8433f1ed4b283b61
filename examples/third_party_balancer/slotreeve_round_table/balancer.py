"""The balancer ``round_table``."""

from collections.abc import Sequence

from slotreeve import Draft, Limits, Plan, Server, SlotTable


class RoundTable:
    """Hands one slot a step from who leads most to who leads least, which becomes its follower first."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """As :class:`slotreeve.ports.Balancer` says."""
        draft = Draft(table, servers)
        # Not draft.least_leaders(): among equals it prefers who follows least, and so a copy would change who is next.
        poorest = min(draft.servers, key=lambda name: (len(draft.led(name)), name))
        richest = max(draft.servers, key=lambda name: len(draft.led(name)))
        if len(draft.led(richest)) - len(draft.led(poorest)) < 2:
            return None
        why = f"{richest} leads {len(draft.led(richest))}, {poorest} leads {len(draft.led(poorest))}"
        slot = min(draft.led(richest), key=lambda slot: (poorest not in draft.followers(slot), slot))
        if draft.followers(slot) and poorest not in draft.followers(slot):
            draft.follow(slot, poorest, f"to lead it next, as {why}", instead_of=min(draft.followers(slot)))
            return draft.plan()
        draft.lead(slot, poorest, why)
        if limits.replicas > 1:
            draft.follow(slot, richest, f"it led the slot until {poorest} took over")
        return draft.plan()
