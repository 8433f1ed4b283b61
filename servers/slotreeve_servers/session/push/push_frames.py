"""One push as encoded frames: one frame, or for a large push one for each part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Push, Scope
from slotreeve_protocol.codec import encode_message

from slotreeve_servers.node.deltas import DeltaPart, delta_parts


class PushFrames:
    """The frames of one push, which all its receivers share. Each but the first is encoded when the first receiver
    needs it, because to encode a large service at once takes long.

    Args:
        step: the version that the push starts from (0: it carries the whole service), and the one that it leads to.
        digest: content digest at that version.
        part_bytes: a part is about so large.

    Attributes:
        version: the version that the push leads to.
        is_parted: whether there is more than one part.
    """

    __slots__ = ("_frames", "_head", "_parts", "is_parted", "version")

    def __init__(
        self,
        service: tuple[str, Scope],
        step: tuple[int, int],
        digest: int,
        changed: Iterable[Publisher],
        removed: Sequence[str],
        part_bytes: int,
    ) -> None:
        self._head = (*service, *step, digest)
        self._parts: Iterator[DeltaPart] | None = delta_parts(changed, removed, part_bytes)
        self._frames: list[bytes] = []
        self._encode_next(self._parts)
        self.version = step[1]
        self.is_parted = self._parts is not None

    def _encode_next(self, parts: Iterator[DeltaPart]) -> None:
        part = next(parts)
        if not part.more:
            self._parts = None
        self._frames.append(encode_message(Push(*self._head, part.changed, part.removed, part.more)))

    def frame(self, number: int) -> bytes | None:
        """The frame of a part, counted from 0; None behind the last part."""
        while len(self._frames) <= number and self._parts is not None:
            self._encode_next(self._parts)
        return self._frames[number] if number < len(self._frames) else None
