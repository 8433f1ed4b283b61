"""Which connections a client uses while it moves."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from slotreeve_client.moves import ClientMove


class Moves(RuleBasedStateMachine):
    """Any order of new connections, losses and ends of moves.

    The twin keeps the open connections in the order in which they were taken, and which of them are complete.
    """

    def __init__(self) -> None:
        super().__init__()
        self.move: ClientMove[int] = ClientMove()
        self.opened: list[int] = []
        self.complete: set[int] = set()
        self.next = 0

    @rule()
    def take(self) -> None:
        self.next += 1
        if len(self.opened) == 1:
            self.complete.add(self.opened[0])
        dropped = self.move.take(self.next)
        if dropped is not None:
            assert dropped not in self.complete
            self.opened.remove(dropped)
        self.opened.append(self.next)

    @rule()
    def finish(self) -> None:
        former = self.move.complete()
        if former is not None:
            self.opened.remove(former)
        if self.opened:
            self.complete.add(self.opened[-1])

    @precondition(lambda self: self.opened)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        lost = data.draw(st.sampled_from(self.opened))
        was_present = lost == self.opened[-1]
        self.opened.remove(lost)
        assert self.move.lost(lost) == was_present

    @rule()
    def lose_one_that_is_not_used(self) -> None:
        assert not self.move.lost(-1)

    @invariant()
    def the_newest_connection_is_used_and_a_complete_one_is_kept(self) -> None:
        assert self.move.present == (self.opened[-1] if self.opened else None)
        assert self.move.former == (self.opened[0] if len(self.opened) == 2 else None)
        assert self.move.former is None or self.move.former in self.complete


TestMoves = Moves.TestCase
TestMoves.settings = settings(derandomize=True, max_examples=100)
