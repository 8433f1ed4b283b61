"""The committed view: the slot table and the members, kept in the election's fenced state."""

from __future__ import annotations

import msgspec
from slotreeve.errors import StorageError, VersionConflict
from slotreeve.model.slots import SlotTable
from slotreeve.model.text import UNDECODABLE
from slotreeve.ports import MetaState
from slotreeve_protocol.meta_messages import View

KEY = "view"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(View).decode


class CommittedView:
    """The view in the meta state, decoded once for each version."""

    def __init__(self, state: MetaState) -> None:
        self._state = state
        self._version = 0
        self._view = View(0, 0, SlotTable(), [], [])

    def read(self) -> View:
        """The newest committed view this node knows; the empty one before the first.

        Raises:
            StorageError: the stored bytes are no view (written by something else, or by a newer version).
        """
        stored = self._state.read(KEY)
        if stored is not None and stored.version != self._version:
            try:
                self._view = _decode(stored.value)
            except UNDECODABLE as error:
                raise StorageError(
                    f"the meta state's {KEY!r} (version {stored.version}) cannot be read: {error}"
                ) from None
            self._version = stored.version
        return self._view

    async def commit(self, view: View, after: int) -> None:
        """Make ``view`` the committed one, provided that the one of revision ``after`` is committed now.

        Raises:
            NotLeader, StaleTerm, VersionConflict: another server leads or has written; publish nothing then.
        """
        held = self.read()
        if held.revision != after:
            raise VersionConflict(
                f"view {view.revision} was made after view {after}; view {held.revision} is committed"
            )
        await self._state.write(KEY, _encode(view), self._version, view.term)
