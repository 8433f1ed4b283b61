"""The balancer ``round_table``: no server leads two slots more than another one.

The slot function ``jump``: when slots are added, keys move to new slots only.
"""

from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Balancer, SlotFunction


def _build_balancer(options: Options, context: Context) -> Balancer:
    from slotreeve_round_table.balancer import RoundTable

    return RoundTable()


def _build_slot_function(options: Options, context: Context) -> SlotFunction:
    from slotreeve_round_table.jump import Jump

    return Jump(context.slots)


@hookimpl
def slotreeve_balancers() -> list[Offer]:
    """The one balancer of this package."""
    return [
        Offer(
            "round_table",
            _build_balancer,
            "hands one slot a step from the server that leads most to the one that leads least",
        )
    ]


@hookimpl
def slotreeve_slot_functions() -> list[Offer]:
    """The one slot function of this package."""
    return [Offer("jump", _build_slot_function, "jump consistent hash: fewest moves when slots are added")]
