"""One push as encoded frames: one frame, or for a large push one for each part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Push, Scope
from slotreeve_protocol.codec import encode_message

from slotreeve_servers.node.deltas import delta_parts


class PushFrames:
    """The frames of one push, which all its receivers share. Each is encoded when the first receiver needs it, because
    to encode a large service at once takes long.

    Args:
        step: the version that the push starts from (0: it carries the whole service), and the one that it leads to.
        digest: content digest at that version.
        part_bytes: a part is about so large.
    """

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
        self._parts = delta_parts(changed, removed, part_bytes)
        self._frames: list[bytes] = []
        self._is_cut = False
        self.version = step[1]

    def frame(self, number: int) -> bytes | None:
        """The frame of a part, counted from 0; None behind the last part."""
        while len(self._frames) <= number and not self._is_cut:
            part = next(self._parts)
            self._is_cut = not part.more
            self._frames.append(encode_message(Push(*self._head, part.changed, part.removed, part.more)))
        return self._frames[number] if number < len(self._frames) else None

    @property
    def is_parted(self) -> bool:
        """Whether there is more than one part."""
        return self.frame(1) is not None
