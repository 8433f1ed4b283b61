"""Denials are told once, and counted where they come again."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from slotreeve_protocol.history_messages import LONGEST_DENIAL, Denied
from slotreeve_servers.node.denials import MORE, MOST_STRANGERS, MOST_TOLD, OTHERS, TOLD_SECONDS, Denials


class Scene:
    def __init__(self) -> None:
        self.told: list[Denied] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.denials = Denials(self._after, self.told.append)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self.timers.append((seconds, action))

    def a_minute_later(self) -> None:
        (timer,) = self.timers
        self.timers.clear()
        assert timer[0] == TOLD_SECONDS
        timer[1]()


def test_the_first_denial_is_told_at_once_and_the_same_ones_together_a_minute_later() -> None:
    scene = Scene()
    for _ in range(5):
        scene.denials.note("shop", "10.0.0.1", "no right")
    scene.denials.note("till", "10.0.0.2", "no right")
    assert scene.told == [Denied("shop", "10.0.0.1", "no right"), Denied("till", "10.0.0.2", "no right")]
    scene.a_minute_later()
    assert scene.told[2:] == [Denied("shop", "10.0.0.1", "no right", 4)]
    assert not scene.timers  # who asks no more costs nothing


def test_who_is_denied_a_thousand_different_things_fills_no_history() -> None:
    scene = Scene()
    for number in range(1_000):
        scene.denials.note(
            f"key shop, shop/{number % 300}", f"10.0.0.{number % 5}", f"no right to read {number}", "key shop"
        )
    assert len(scene.told) == MOST_TOLD + 1
    scene.denials.note("till", "10.0.0.2", "no right", "key till")
    assert scene.told[-1] == Denied("till", "10.0.0.2", "no right")  # nobody hides another's
    scene.a_minute_later()
    assert scene.told[-1] == Denied("key shop", "", MORE, 1_000 - MOST_TOLD - 1)
    assert len(scene.told) == MOST_TOLD + 3


def test_who_is_known_is_told_of_whatever_strangers_do_from_however_many_addresses() -> None:
    scene = Scene()
    for number in range(1_000):
        scene.denials.note("anonymous", f"10.0.{number // 250}.{number % 250}", "a token is needed")
        for _ in range(30):
            scene.denials.note(f"somebody {number}", "10.9.9.9", f"no {number}")
    known = Denied("token night", "10.0.0.1", "no right to operate *")
    scene.denials.note(known.author, known.address, known.reason, "token night")
    assert scene.told[-1] == known
    assert len(scene.told) <= MOST_STRANGERS + 1 + MOST_TOLD + 2 + 1


def test_a_thousand_callers_fill_no_history_and_a_long_reason_is_cut() -> None:
    scene = Scene()
    for number in range(1_000):
        scene.denials.note("a caller", f"10.0.0.{number}", "x" * 10_000)
    assert len(scene.told) == MOST_STRANGERS + 1
    assert max(len(denied.reason) for denied in scene.told) == LONGEST_DENIAL
    scene.a_minute_later()
    assert scene.told[-1] == Denied(*OTHERS, 1_000 - MOST_STRANGERS - 1)


@given(st.lists(st.one_of(st.none(), st.integers(0, 2 * MOST_TOLD)), max_size=400))
def test_each_denial_is_counted_exactly_once(steps: list[int | None]) -> None:
    """None: a minute passes."""
    scene = Scene()
    for step in steps:
        if step is not None:
            scene.denials.note("shop", "10.0.0.1", str(step))
        elif scene.timers:
            scene.a_minute_later()
    scene.denials.tell()
    assert sum(denied.count for denied in scene.told) == sum(step is not None for step in steps)
