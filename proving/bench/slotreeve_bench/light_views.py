"""Subscribers of one large service that keep digests instead of a copy. Pure.

A thousand copies of 300,000 instances do not fit one machine. A light view keeps the number of instances and the
content digest, and compares them with the digest in every push, as a client does with its copy. What it shares with the
other light views of its process: a part of the whole service is decoded and hashed once, and recognised by the hash of
its bytes when another view receives it. Of the instances that changed since, each view keeps the hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from slotreeve.model.datum import DIGEST_MASK, NO_VERSION, content_hash
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Push, PushReceipt, Scope

PUSH_TAG = Push.__struct_config__.tag
assert isinstance(PUSH_TAG, int)
_HEAD_BYTES = 1


class PushHead(msgspec.Struct, array_like=True, frozen=True, tag=PUSH_TAG):
    """A push whose records are not decoded."""

    data_info_id: str
    scope: Scope
    from_version: int
    version: int
    digest: int
    changed: msgspec.Raw
    removed: msgspec.Raw
    more: bool = False


_head_of = msgspec.msgpack.Decoder(PushHead).decode
_records_of = msgspec.msgpack.Decoder(list[Publisher]).decode


class WholeService:
    """All instances of the service at one version: content hash by register id, from the parts that any view has
    received so far."""

    def __init__(self) -> None:
        self.hashes: dict[str, int] = {}
        self._parts: dict[int, tuple[int, int]] = {}

    def part(self, key: int, records: Iterable[Publisher] | msgspec.Raw) -> tuple[int, int]:
        """Number and digest of the records of one part. ``key`` is a hash of its bytes; the records of a known part are
        not looked at."""
        found = self._parts.get(key)
        if found is None:
            if isinstance(records, msgspec.Raw):
                records = _records_of(records)
            hashes = {record.register_id: content_hash(record) for record in records}
            self.hashes.update(hashes)
            found = self._parts[key] = len(hashes), sum(hashes.values()) & DIGEST_MASK
        return found


class KnownWholes:
    """What the light views of one process share: the whole service at each version that any of them received."""

    def __init__(self) -> None:
        self._wholes: dict[tuple[int, int], WholeService] = {}

    def of(self, version: int, digest: int) -> WholeService:
        """The whole service at a version."""
        return self._wholes.setdefault((version, digest), WholeService())


class LightView:
    """One subscription.

    Attributes:
        version: of the last push that was complete; 0: none, or a push did not fit.
        count: number of instances at that version. ``digest``: their content digest.
        lowest: the lowest number since the first whole service.
        wrong: pushes that did not lead to their digest, or started at another version.
    """

    def __init__(self, known: KnownWholes) -> None:
        self._known = known
        self.version, self.count, self.digest = NO_VERSION, 0, 0
        self.lowest: int | None = None
        self.wrong = 0
        self._hashes: Mapping[str, int] = {}
        self._changed: dict[str, int] = {}
        # The whole service that is arriving: version, number and digest of the records so far, parts, what follows it.
        self._arriving, self._number, self._sum, self._parts = NO_VERSION, 0, 0, 0
        self._later: list[Push] = []

    def frame(self, frame: bytes) -> PushReceipt:
        """A large push has arrived, not decoded."""
        head = _head_of(memoryview(frame)[_HEAD_BYTES:])
        if head.from_version == NO_VERSION:
            return self._part(head, hash(frame), head.changed)
        push = msgspec.msgpack.decode(memoryview(frame)[_HEAD_BYTES:], type=Push)
        return self.push(push)

    def push(self, push: Push) -> PushReceipt:
        """A push has arrived."""
        if push.from_version == NO_VERSION:
            return self._part(push, hash((push.version, push.digest, tuple(push.changed))), push.changed)
        if self._arriving and push.from_version >= self._arriving:
            self._later.append(push)
        elif push.version > self.version:
            self._apply(push)
            self._shows()
        return PushReceipt(push.data_info_id, push.scope, push.version, self.version, self._parts)

    def _part(self, push: Push | PushHead, key: int, records: list[Publisher] | msgspec.Raw) -> PushReceipt:
        whole = self._known.of(push.version, push.digest)
        if self._arriving != push.version:
            self._arriving, self._number, self._sum, self._parts = push.version, 0, 0, 0
            self._later.clear()
        number, digest = whole.part(key, records)
        self._number += number
        self._sum = (self._sum + digest) & DIGEST_MASK
        self._parts += 1
        if not push.more:
            self._arriving, self._parts = NO_VERSION, 0
            self._hashes, self._changed = whole.hashes, {}
            self.count, self.digest = self._number, self._sum
            self._reached(push)
            later, self._later = self._later, []
            for one in later:
                self._apply(one)
            self._shows()
        return PushReceipt(push.data_info_id, push.scope, push.version, self.version, self._parts)

    def _apply(self, push: Push) -> None:
        if self.version == NO_VERSION or push.from_version > self.version:
            self.version = NO_VERSION
            self.wrong += 1
            return
        for record in push.changed:
            self._move(record.register_id, content_hash(record))
        for register_id in push.removed:
            self._move(register_id, 0)
        if not push.more:
            self._reached(push)

    def _move(self, register_id: str, value: int) -> None:
        """An instance has this content hash now; 0: it is gone."""
        old = self._changed.get(register_id)
        if old is None:
            old = self._hashes.get(register_id, 0)
        self._changed[register_id] = value
        self.digest = (self.digest + value - old) & DIGEST_MASK
        self.count += bool(value) - bool(old)

    def _reached(self, push: Push | PushHead) -> None:
        if self.digest != push.digest:
            self.version = NO_VERSION
            self.wrong += 1
            return
        self.version = push.version

    def _shows(self) -> None:
        """A client would show its view now: all parts have arrived, and what goes on from them."""
        if self.version != NO_VERSION:
            self.lowest = self.count if self.lowest is None else min(self.lowest, self.count)
