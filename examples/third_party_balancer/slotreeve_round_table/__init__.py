"""The balancer ``round_table``: nobody leads two slots more than another."""

from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Balancer


def _build(options: Options, context: Context) -> Balancer:
    from slotreeve_round_table.balancer import RoundTable

    return RoundTable()


@hookimpl
def slotreeve_balancers() -> list[Offer]:
    """The one balancer of this package."""
    return [Offer("round_table", _build, "hands one slot a step from who leads most to who leads least")]
