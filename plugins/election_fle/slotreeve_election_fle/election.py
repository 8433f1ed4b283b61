"""The shell of the FLE election: carries out what its state machine asks for, and is the Election port itself."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping

from slotreeve.errors import ElectionError, NotLeader, SlotreeveError, StorageError
from slotreeve.model.nodes import Role
from slotreeve.ports import Context, Hello, Leadership, MetaState, Storage, Transport
from slotreeve_machines.disk_worker import DiskWorker, finished, worker_of
from slotreeve_machines.driver import Driver, Pending
from slotreeve_machines.leadership import LeadershipChanged, LeadershipReport, Noted, ResignAsked
from slotreeve_machines.storage import MemoryStorage

from slotreeve_election_fle.allowance import AllowanceByName
from slotreeve_election_fle.connections import Addresses, Connections
from slotreeve_election_fle.disk import TRIAL, Disk
from slotreeve_election_fle.disk_order import DiskOrder
from slotreeve_election_fle.disk_watch import LONGEST_WRITE_SECONDS, DiskWatch
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
from slotreeve_election_fle.events import Event, StillWriting, WriteAsked
from slotreeve_election_fle.identity import Identity, Owner
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.left_directory import LeftDirectory
from slotreeve_election_fle.member import Member
from slotreeve_election_fle.messages import StoodDown
from slotreeve_election_fle.place import Place
from slotreeve_election_fle.quorum import Weighing
from slotreeve_election_fle.records import IdentityRecord
from slotreeve_election_fle.state import ReplicatedState
from slotreeve_election_fle.taking_part import Announced, unshifted
from slotreeve_election_fle.timing import FleTiming
from slotreeve_election_fle.vote import NOBODY

log = logging.getLogger("slotreeve.election.fle")

WRITES_A_TURN = 250
PAUSE_SECONDS = 1.0
"""A node whose disk refused a write, or whose state machine failed, stands aside for this long."""
RESIGN_SECONDS = 2.0
"""A leader that resigns waits so long for the writes under way: meanwhile it takes no other one, and where it stops it
confirms no data server any more, which then acts for four heartbeats yet."""
CLOSE_SECONDS = 5.0
"""A node that stops waits so long for its disk."""
TRIAL_WRITES = 5
"""A directory is tried out with so many writes."""


class FleElection:
    """ZooKeeper's fast leader election with a quorum lease, behind :class:`slotreeve.ports.Election`.

    Crash-only: after a failed disk write or an error of its own the node drops its connections, stands aside, and
    takes part again from what the disk holds, as if it had been restarted.

    Attributes:
        failures: how often that has happened.
        disk_watch: how long the writes to the disk take.
        agreement: the options that must be equal on all nodes.
    """

    def __init__(
        self,
        context: Context,
        data_dir: str,
        timing: FleTiming,
        snapshot_every: int,
        weighing: Weighing,
        allowance: AllowanceByName,
        announced: Announced = Announced(),  # noqa: B008 - it never changes
    ) -> None:
        """Nothing is opened before :meth:`start`.

        Raises:
            ConfigError: the weighing, or what an operator allows, does not fit the members.
            ElectionError: the context names no transport, no members, or no place among them for this node.
        """
        self._transport = _checked_transport(context)
        addresses = Addresses.of(context.node, context.members, context.listen, announced.is_moved)
        quorum = weighing.quorum(addresses.by_name)
        self._place = Place(
            NOBODY if addresses.sid is None else addresses.sid,
            context.observe_only or addresses.sid is None,
            quorum,
            timing,
            allowance.allowance(addresses.by_name, quorum),
        )
        self.is_observer = context.observe_only or addresses.sid is None
        self._weighing = str(weighing)
        self._names = sorted(context.members)
        self._owner = Owner(context.node, self._names, str(weighing))
        alike = f"members {', '.join(self._names)}; lease_ms {1000 * timing.lease:g}"
        self.agreement = f"{alike}; weights {weighing}" if str(weighing) else alike
        self._clock, self._rng = context.clock, context.rng
        self._snapshot_every = snapshot_every
        self._data_dir = data_dir
        self._open_storage = context.open_storage
        process = f"{context.node}@{context.rng.getrandbits(48):012x}"
        hello = Hello(context.cluster, context.node, Role.META, process, addresses.announced)
        self._driver: Driver[Event, Effect] = Driver(self._clock, self, DiskOrder())
        self.disk_watch = DiskWatch(
            self._clock, timing.ping, lambda: self._driver.take(StillWriting()), self._disk_is_stuck
        )
        self._connections = Connections(addresses, self._transport, hello, self._clock, self._driver.take)
        self._port_shift = announced.port_shift
        self._report = LeadershipReport()
        self._state = ReplicatedState(self._write)
        self._storage: Storage | None = None
        self._worker: DiskWorker | None = None
        self._disk: Disk | None = None
        self._member: Member | None = None
        self._writes: dict[int, asyncio.Future[int]] = {}
        self._next_token = 0
        self._asked: deque[WriteAsked] = deque()
        self._taken_this_turn, self._is_turn_counted = 0, False
        self._resigned: list[asyncio.Future[None]] = []
        self._aside = ""
        self.failures = 0

    # --- Election ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> MetaState:
        """The fenced meta state; see :class:`slotreeve.ports.Election`."""
        return self._state

    def leadership(self) -> Leadership:
        """The present leader, as this node knows it; see :class:`slotreeve.ports.Election`."""
        return self._report.current(0.0 if self._member is None else self._member.valid_until)

    @property
    def announced(self) -> Mapping[str, str]:
        """Election addresses of members by name that announce one, because it is in no other configuration yet; without
        the shift of ports, since others know the one address of a server from the other."""
        found = {name: unshifted(address, self._port_shift) for name, address in self._connections.announced.items()}
        return {name: address for name, address in found.items() if address is not None}

    def counters(self) -> dict[str, int]:
        """See :class:`slotreeve_machines.leadership.CountingElection`."""
        return {
            "election_failures": self.failures,
            "election_slow_writes": self.disk_watch.slow_writes,
            "election_slowest_write_ms": round(1000 * self.disk_watch.slowest_seconds),
        }

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part; raises as :meth:`slotreeve.ports.Election.start`."""
        if self._storage is not None:
            raise ElectionError("this election was started already")
        self._report.begin(changed)
        storage = self._storage = self._opened_storage()
        worker = self._worker = worker_of(storage, self._clock)
        reading = self._reading(storage)
        try:
            await finished(worker.run(reading.read))  # beside: this node may lead in another election
            await self._time_a_write(worker, reading.disk)
            await self._connections.open()
        except SlotreeveError:
            self._driver.stop()
            await self._close_storage()
            raise
        self._begin(reading)

    async def resign(self) -> None:
        """Give up leadership, once the writes under way are done, but after :data:`RESIGN_SECONDS` in any case; see
        :class:`slotreeve.ports.Election`."""
        if self._report.known.leading:
            resigned = asyncio.get_running_loop().create_future()
            self._resigned.append(resigned)
            self._driver.take(ResignAsked())
            await asyncio.wait([resigned], timeout=RESIGN_SECONDS)
            if not resigned.done():
                self._stand_aside(
                    f"this server resigned, and a write under way was not done within {RESIGN_SECONDS:g} s"
                )

    async def stop(self) -> None:
        """Resign and stop taking part. Idempotent."""
        await self.resign()
        await self._connections.close()
        self._cease("stopped")
        await self._close_storage()

    async def _write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        if self._member is None:
            raise NotLeader(f"write to {key!r}: this node does not take part in the election now")
        self._next_token += 1
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writes[self._next_token] = future
        self._asked.append(WriteAsked(self._next_token, key, value, expected_version, term))
        self._take_writes()
        return await future

    def _take_writes(self) -> None:
        """Give the machine a bounded number of writes in one turn of the event loop: heartbeats wait for the turn."""
        while self._asked and self._taken_this_turn < WRITES_A_TURN:
            self._taken_this_turn += 1
            self._driver.take(self._asked.popleft())
        if not self._is_turn_counted:
            self._is_turn_counted = True
            self._clock.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._taken_this_turn, self._is_turn_counted = 0, False
        if self._asked:
            self._take_writes()

    # --- starting ----------------------------------------------------------------------------------------------------

    def _opened_storage(self) -> Storage:
        if not self._data_dir:
            return MemoryStorage().open()
        if self._open_storage is None:
            raise ElectionError("election.fle.data_dir is set, but this process cannot open directories")
        return self._open_storage(self._data_dir)

    async def try_out(self) -> str:
        """Open the data directory, write to it and close it, for ``slotreeve config check --online``. Returns what was
        found, for people. Not for an election that was started.

        Raises:
            StorageError: it cannot be used, or another process holds it.
        """
        if not self._data_dir:
            return "no data_dir: promises and state are kept in memory"
        storage = self._storage = self._opened_storage()
        worker = self._worker = worker_of(storage, self._clock)

        def write() -> None:
            for number in range(TRIAL_WRITES):
                storage.replace(TRIAL, b"%d" % number)
            storage.remove(TRIAL)

        began = self._clock.now()
        try:
            async with asyncio.timeout(LONGEST_WRITE_SECONDS):
                await finished(worker.run(write))  # beside: this node may lead in another election
        except TimeoutError:
            raise StorageError(f"{self._data_dir}: its disk does not answer") from None
        finally:
            await self._close_storage()
        seconds = (self._clock.now() - began) / TRIAL_WRITES
        return f"{self._data_dir} can be written; a durable write takes {1000 * seconds:.3g} ms"

    def left_directory(self, path: str) -> LeftDirectory:
        """A data directory that is left of a lost ensemble, for ``slotreeve election force-new-cluster``.

        Raises:
            StorageError: it cannot be opened, or another process holds it.
        """
        if self._open_storage is None:
            raise ElectionError("this process cannot open directories")
        return LeftDirectory(self._open_storage(path), path)

    def _reading(self, storage: Storage) -> _Reading:
        return _Reading(Disk(storage, self._data_dir), self._owner, self._snapshot_every, self._rng)

    async def _time_a_write(self, worker: DiskWorker, disk: Disk) -> None:
        """Write once before this node takes part: a slow disk is reported at the start."""
        self.disk_watch.begin()
        await finished(worker.run(disk.write_again))
        self.disk_watch.end(self._data_dir)

    def _begin(self, reading: _Reading) -> None:
        """Run a machine that goes on from what the directory holds."""
        self._disk = reading.disk
        self._state.load(reading.ledger.table)
        self._member = Member(self._place, reading.ledger, Identity(reading.identity), self._rng)
        self._driver.run(self._member)

    async def _close_storage(self) -> None:
        worker, storage = self._worker, self._storage
        self._worker = self._storage = None
        if worker is not None and storage is not None:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await worker.close()
            except TimeoutError:
                log.error("election: the directory %s is not closed: its disk does not answer", self._data_dir)
            else:
                storage.close()

    # --- Performer ---------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> Pending | None:
        """Carry out one effect of the state machine; see :class:`slotreeve_machines.driver.Performer`."""
        match effect:
            case Send(to, message):
                self._connections.send(to, message)
            case HangUp(sid, reason, for_good):
                self._connections.hang_up(sid, reason, for_good)
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

    def _write_to_disk(self, effect: DiskWrite) -> Pending:
        """Write beside the event loop; the effects that follow wait."""
        disk, worker = self._disk, self._worker
        assert disk is not None  # a machine runs, so its disk was read
        assert worker is not None
        self.disk_watch.begin()
        written, pending = worker.run(lambda: disk.write(effect)), Pending()

        def end(error: Exception | None) -> None:
            self.disk_watch.end(self._data_dir)
            pending.finish(error)

        written.when_finished(end)
        return pending

    def _disk_is_stuck(self) -> None:
        if self._member is not None:
            why = f"the disk of {self._data_dir} has not taken a write for {LONGEST_WRITE_SECONDS:g} s"
            log.error("ALARM: election: %s; this server stands aside until it has", why)
            self._stand_aside(why)

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
        """Take part again, from what the disk holds."""
        if self._storage is None or self._worker is None or self._member is not None:
            return
        if self.disk_watch.is_writing:  # for the machine that was dropped
            self._clock.call_later(PAUSE_SECONDS, self._come_back)
            return
        reading = self._reading(self._storage)

        def read(error: Exception | None) -> None:
            if self._storage is None:
                return  # this node has left the election meanwhile
            if error is None:
                self._aside = ""
                log.warning("election: takes part again")
                self._begin(reading)
                self._connections.resume()
            else:
                if str(error) != self._aside:
                    self._aside = str(error)
                    log.error("election: still standing aside: %s", error)
                self._clock.call_later(PAUSE_SECONDS, self._come_back)

        self._worker.run(reading.read).when_finished(read)

    def _cease(self, why: str) -> None:
        """The machine is gone: this node knows no leader, and the writers are answered."""
        self._driver.stop()
        self._member = self._disk = None
        writes, self._writes = self._writes, {}
        self._asked.clear()
        for future in writes.values():
            if not future.done():
                future.set_exception(NotLeader(f"{why}: the write may or may not be stored"))
        known = self._report.known
        if known.leader is not None:
            self._change(None, known.term, False, why)


class _Reading:
    """A job for the disk: read what the directory holds.

    Attributes:
        disk: the directory.
        ledger, identity: what it held; set by :meth:`read`.
    """

    ledger: Ledger
    identity: IdentityRecord

    def __init__(self, disk: Disk, owner: Owner, snapshot_every: int, rng: random.Random) -> None:
        self.disk = disk
        self._owner, self._snapshot_every, self._rng = owner, snapshot_every, rng

    def read(self) -> None:
        """Blocks. Raises StorageError."""
        self.ledger = Ledger(self.disk.read_ledger(), self._snapshot_every)
        self.identity = self.disk.read_identity(self._owner, self.ledger.accepted_epoch, self._rng)


def _checked_transport(context: Context) -> Transport:
    if context.transport is None:
        raise ElectionError("the fle election needs a transport, and was given none")
    if not context.members:
        raise ElectionError("the fle election needs the addresses of the meta servers ([cluster.meta])")
    if context.node not in context.members and not context.observe_only:
        names = ", ".join(sorted(context.members))
        raise ElectionError(f"node {context.node!r} is not among the meta servers {names} ([cluster.meta])")
    return context.transport
