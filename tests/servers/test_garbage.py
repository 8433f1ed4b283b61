"""What Python's collector looks at in a server process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from slotreeve_servers.node.garbage import COMPLETE_SECONDS, MANY_OBJECTS, GarbageCollection


class Cycle:
    """An object that only the collector can end."""

    alive = 0

    def __init__(self) -> None:
        self.me = self
        Cycle.alive += 1

    def __del__(self) -> None:
        Cycle.alive -= 1


class Scene:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.garbage = GarbageCollection(lambda: self.seconds)
        self.garbage.begin()


@pytest.fixture
def scene() -> Iterator[Scene]:
    gc.collect()
    Cycle.alive = 0
    scene = Scene()
    yield scene
    scene.garbage.end()
    gc.collect()


def test_what_survived_a_full_collection_is_not_looked_at_in_the_next(scene: Scene) -> None:
    kept = [[number] for number in range(100_000)]
    gc.collect()
    assert len(gc.get_objects()) < len(kept) / 10
    assert gc.get_freeze_count() > len(kept)


def test_a_cycle_that_never_survived_a_full_collection_is_collected(scene: Scene) -> None:
    Cycle()
    gc.collect()
    assert Cycle.alive == 0


def test_cycles_among_what_was_set_aside_are_collected_once_it_has_become_much(scene: Scene) -> None:
    cycle = Cycle()
    gc.collect()
    del cycle
    kept = [[number] for number in range(MANY_OBJECTS + 2 * gc.get_freeze_count())]
    gc.collect()
    gc.collect()
    assert (Cycle.alive, len(kept) > MANY_OBJECTS) == (1, True)
    scene.seconds = COMPLETE_SECONDS
    gc.collect()  # finds that it is time
    gc.collect()
    assert Cycle.alive == 0
    scene.seconds *= 2
    gc.collect()
    assert gc.get_freeze_count() > len(kept)  # nothing has grown since


def test_at_its_end_the_collector_works_as_by_default() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    garbage = GarbageCollection(lambda: 0.0)
    garbage.begin()
    assert gc.get_threshold() != before[0]
    garbage.end()
    assert (gc.get_threshold(), gc.callbacks, gc.get_freeze_count()) == (*before, 0)
