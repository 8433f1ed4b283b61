"""Faults of the disk of one meta server."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_machines.storage import MemoryStorage

SHORTEST_SYNC_SECONDS, LONGEST_SYNC_SECONDS = 0.001, 0.5


def fill_disk(disk: MemoryStorage | None) -> Callable[[], None] | None:
    """Let the disk refuse every write."""
    if disk is None:
        return None
    disk.failure = "No space left on device"

    def end() -> None:
        disk.failure = None

    return end


def slow_disk(disk: MemoryStorage | None, healthy: float, amount: float) -> Callable[[], None] | None:
    """Let each sync take longer than the ``healthy`` seconds, unless that is so already."""
    if disk is None or disk.sync_seconds > healthy:
        return None
    disk.sync_seconds = healthy + max(SHORTEST_SYNC_SECONDS, LONGEST_SYNC_SECONDS * amount)

    def end() -> None:
        disk.sync_seconds = healthy

    return end
