"""The shell of the FLE election: carries out what its state machine asks for, and is the Election port itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from slotreeve.errors import ElectionError, NotLeader, SlotreeveError, StorageError
from slotreeve.model.nodes import Role
from slotreeve.ports import Context, Hello, Leadership, MetaState, Storage, Transport
from slotreeve_machines.driver import Driver, Pending
from slotreeve_machines.leadership import LeadershipChanged, LeadershipReport, Noted, ResignAsked
from slotreeve_machines.storage import MemoryStorage

from slotreeve_election_fle.connections import Addresses, Connections
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.effects import (
    Applied,
    DiskWrite,
    Effect,
    HangUp,
    NotWritten,
    Probe,
    Send,
    Written,
)
from slotreeve_election_fle.events import Event, WriteAsked
from slotreeve_election_fle.identity import Identity
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.member import Member, Place
from slotreeve_election_fle.messages import StoodDown
from slotreeve_election_fle.quorum import Weighing
from slotreeve_election_fle.state import ReplicatedState
from slotreeve_election_fle.timing import FleTiming
from slotreeve_election_fle.vote import NOBODY

log = logging.getLogger("slotreeve.election.fle")

PAUSE_SECONDS = 1.0
"""A node whose disk refused a write, or whose state machine failed, stands aside for this long."""


class FleElection:
    """ZooKeeper's fast leader election with a quorum lease, behind :class:`slotreeve.ports.Election`.

    Crash-only: after a failed disk write or an error of its own the node drops its connections, stands aside, and
    takes part again from what the disk holds, as if it had been restarted.

    Attributes:
        failures: how often that has happened.
    """

    def __init__(
        self, context: Context, data_dir: str, timing: FleTiming, snapshot_every: int, weighing: Weighing
    ) -> None:
        """Nothing is opened before :meth:`start`.

        Raises:
            ConfigError: the weighing does not fit the members.
            ElectionError: the context names no transport, no members, or no place among them for this node.
        """
        self._transport = _checked_transport(context)
        addresses = Addresses.of(context.node, context.members, context.listen)
        self._place = Place(
            NOBODY if addresses.sid is None else addresses.sid,
            context.observe_only or addresses.sid is None,
            weighing.quorum(addresses.by_name),
            timing,
        )
        self._weighing = str(weighing)
        self._names = sorted(context.members)
        self._clock, self._rng = context.clock, context.rng
        self._snapshot_every = snapshot_every
        self._data_dir = data_dir
        self._open_storage = context.open_storage
        process = f"{context.node}@{context.rng.getrandbits(48):012x}"
        hello = Hello(context.cluster, context.node, Role.META, process)
        self._driver: Driver[Event, Effect] = Driver(self._clock, self)
        self._connections = Connections(addresses, self._transport, hello, self._clock, self._driver.take)
        self._report = LeadershipReport()
        self._state = ReplicatedState(self._write)
        self._storage: Storage | None = None
        self._disk: Disk | None = None
        self._member: Member | None = None
        self._has_unsent = False
        self._writes: dict[int, asyncio.Future[int]] = {}
        self._next_token = 0
        self._resigned: list[asyncio.Future[None]] = []
        self.failures = 0

    # --- Election ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> MetaState:
        """The fenced meta state; see :class:`slotreeve.ports.Election`."""
        return self._state

    def leadership(self) -> Leadership:
        """The present leader, as this node knows it; see :class:`slotreeve.ports.Election`."""
        return self._report.current(0.0 if self._member is None else self._member.valid_until)

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part; raises as :meth:`slotreeve.ports.Election.start`."""
        if self._storage is not None:
            raise ElectionError("this election was started already")
        self._report.begin(changed)
        self._storage = self._opened_storage()
        try:
            member = self._read_disk(self._storage)
            await self._connections.open()
        except SlotreeveError:
            self._driver.stop()
            self._storage.close()
            self._storage = None
            raise
        self._begin(member)

    async def resign(self) -> None:
        """Give up leadership, once the writes under way are done; see :class:`slotreeve.ports.Election`."""
        if self._report.known.leading:
            resigned = asyncio.get_running_loop().create_future()
            self._resigned.append(resigned)
            self._driver.take(ResignAsked())
            await resigned

    async def stop(self) -> None:
        """Resign and stop taking part. Idempotent."""
        await self.resign()
        await self._connections.close()
        self._cease("stopped")
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    async def _write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        if self._member is None:
            raise NotLeader(f"write to {key!r}: this node does not take part in the election now")
        self._next_token += 1
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writes[self._next_token] = future
        self._driver.take(WriteAsked(self._next_token, key, value, expected_version, term))
        return await future

    # --- starting ----------------------------------------------------------------------------------------------------

    def _opened_storage(self) -> Storage:
        if not self._data_dir:
            return MemoryStorage().open()
        if self._open_storage is None:
            raise ElectionError("election.fle.data_dir is set, but this process cannot open directories")
        return self._open_storage(self._data_dir)

    def _read_disk(self, storage: Storage) -> Member:
        """A machine that goes on from what the directory holds."""
        disk = self._disk = Disk(storage, self._data_dir)
        ledger = Ledger(disk.read_ledger(), self._snapshot_every)
        identity = disk.read_identity(self._names, self._weighing, self._rng)
        self._state.load(ledger.table)
        return Member(self._place, ledger, Identity(identity), self._rng)

    def _begin(self, member: Member) -> None:
        self._member = member
        self._driver.run(member)

    # --- Performer ---------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> Pending | None:
        """Carry out one effect of the state machine; see :class:`slotreeve_machines.driver.Performer`."""
        match effect:
            case Send(to, message):
                self._connections.send(to, message)
                self._note_unsent()
            case HangUp(sid, reason):
                self._connections.hang_up(sid, reason)
            case Probe(sid):
                self._connections.probe(sid)
            case Applied(changes):
                self._state.apply(changes)
            case Written(token, version):
                future = self._writes.pop(token)
                if not future.done():
                    future.set_result(version)
            case NotWritten(token, error):
                future = self._writes.pop(token)
                if not future.done():
                    future.set_exception(error)
            case LeadershipChanged(leader, term, leading, cause):
                self._change(None if leader is None else self._names[leader], term, leading, cause)
            case Noted(text, warning):
                log.log(logging.WARNING if warning else logging.DEBUG, "election: %s", text)
            case _:
                return self._write_to_disk(effect)
        return None

    def failed(self, error: Exception) -> None:
        """The disk refused a write, or the state machine raised an error; see Performer."""
        if isinstance(error, StorageError):
            log.error("election: %s", error)
            self._stand_aside(str(error))
        else:
            log.error("election: the state machine failed", exc_info=error)
            self._stand_aside(f"{type(error).__name__}: {error}")

    def _note_unsent(self) -> None:
        """A transport sends at the end of the event loop's turn."""
        if not self._has_unsent:
            self._has_unsent = True
            self._clock.call_soon(self._all_sent)

    def _all_sent(self) -> None:
        self._has_unsent = False

    def _write_to_disk(self, effect: DiskWrite) -> Pending | None:
        """Write at once, or after the messages that were sent before: the other disks then work at the same time."""
        disk = self._disk
        assert disk is not None  # a machine runs, so its disk was read
        if not self._has_unsent:
            disk.write(effect)
            return None
        pending = Pending()

        def write() -> None:
            if self._disk is not disk:
                return  # the machine was stopped meanwhile
            try:
                disk.write(effect)
            except Exception as error:  # noqa: BLE001 - the driver is given it
                pending.finish(error)
            else:
                pending.finish()

        self._clock.call_soon(write)
        return pending

    def _change(self, leader: str | None, term: int, leading: bool, cause: str) -> None:
        if not leading:
            waiting, self._resigned = self._resigned, []
            for resigned in waiting:
                if not resigned.done():
                    resigned.set_result(None)
        valid_until = self._member.valid_until if leading and self._member is not None else 0.0
        self._report.change(Leadership(leader, term, leading, valid_until, cause))

    # --- standing aside ----------------------------------------------------------------------------------------------

    def _stand_aside(self, why: str) -> None:
        self.failures += 1
        if self._report.known.leading:
            self._connections.send_all(StoodDown(self._report.known.term, why))
        self._connections.pause(why)
        self._cease(why)
        self._clock.call_later(PAUSE_SECONDS, self._come_back)

    def _come_back(self) -> None:
        if self._storage is None or self._member is not None:
            return
        try:
            member = self._read_disk(self._storage)
        except StorageError as error:
            log.error("election: still standing aside: %s", error)
            self._clock.call_later(PAUSE_SECONDS, self._come_back)
            return
        self._begin(member)
        self._connections.resume()

    def _cease(self, why: str) -> None:
        """The machine is gone: this node knows no leader, and the writers are answered."""
        self._driver.stop()
        self._member = self._disk = None
        writes, self._writes = self._writes, {}
        for future in writes.values():
            if not future.done():
                future.set_exception(NotLeader(f"{why}: the write may or may not be stored"))
        known = self._report.known
        if known.leader is not None:
            self._change(None, known.term, False, why)


def _checked_transport(context: Context) -> Transport:
    if context.transport is None:
        raise ElectionError("the fle election needs a transport, and was given none")
    if not context.members:
        raise ElectionError("the fle election needs the addresses of the meta servers ([cluster.meta])")
    if context.node not in context.members and not context.observe_only:
        names = ", ".join(sorted(context.members))
        raise ElectionError(f"node {context.node!r} is not among the meta servers {names} ([cluster.meta])")
    return context.transport
