"""One connection to every other member: which side connects, which connection is the present one, what arrives on it.

The member with the greater server id connects, as in ZooKeeper's QuorumCnxManager (docs/fle.md, section 3). A node that
is no member (an observer from outside) connects to all members, and has a negative id as long as its connection lasts.
A member that has moved announces its address in its hello, and connects to all members that do not find it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec
from slotreeve.clock import Clock
from slotreeve.errors import MalformedFrame, Refused, Unreachable
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Listener, Message, Transport
from slotreeve_protocol.general_messages import Opaque

from slotreeve_election_fle.events import (
    Event,
    PeerConnected,
    PeerDead,
    PeerDisconnected,
    PeerUnreachable,
    Received,
)
from slotreeve_election_fle.messages import FleMessage, from_opaque, to_opaque
from slotreeve_election_fle.outgoing import OutgoingMessages

log = logging.getLogger("slotreeve.election.fle")

CONNECT_SECONDS = 1.0
PROBE_PAUSE_SECONDS = 0.01
"""Pause between two probes, where the first one broke on its way."""
FIRST_REDIAL_SECONDS = 0.02
LONGEST_REDIAL_SECONDS = 0.5
UNMET_SECONDS = 1.0
"""A member that has moved connects to one that should connect to it and has not for so long."""
MOST_STRANGERS = 64
"""Connections of nodes that are no members (observers from outside) that may be open at a time."""


@dataclass(frozen=True)
class Addresses:
    """Where the members listen.

    Attributes:
        sid: this node's server id; None if it is no member.
        listen: where this node listens, if it is a member.
        by_sid: election address of every member.
        by_name: server id by node name.
        is_moved: the other members may have another address of this node in their configuration.
    """

    sid: int | None
    listen: str
    by_sid: Mapping[int, str]
    by_name: Mapping[str, int]
    is_moved: bool = False

    @classmethod
    def of(cls, node: str, members: Mapping[str, str], listen: str = "", is_moved: bool = False) -> Addresses:
        """The server id of a member is the rank of its name; it listens at its address unless ``listen`` is given."""
        by_name = {name: rank for rank, name in enumerate(sorted(members))}
        listen = listen or members.get(node, "")
        by_sid = {by_name[name]: address for name, address in members.items()}
        return cls(by_name.get(node), listen, by_sid, by_name, is_moved and node in members)

    @property
    def announced(self) -> str:
        """The address that this node names in its hello; empty where the others know it."""
        return self.by_sid[self.sid] if self.is_moved and self.sid is not None else ""

    def dials(self, sid: int) -> bool:
        """Whether this node connects to that member, and not the other way round."""
        return self.sid is None or sid < self.sid

    def dialled(self) -> list[int]:
        """The members that this node connects to, at once or where they do not connect to it."""
        return [sid for sid in sorted(self.by_sid) if self.dials(sid) or (self.is_moved and sid != self.sid)]


class _IgnoringHandler:
    """Handler of a connection that is only made to learn whether it can be."""

    def opened(self, connection: Connection) -> None:
        """Ignored."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Ignored."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Ignored."""


class Connections:
    """The connections of one node; a :class:`slotreeve.ports.Handler`. Calls ``take`` with every event, on the loop.

    Attributes:
        announced: election addresses of members by name that have announced one with their last connection.
        malformed: messages dropped because they do not belong to this protocol.
        failures: dialling loops that failed unexpectedly (and went on).
    """

    def __init__(
        self, addresses: Addresses, transport: Transport, hello: Hello, clock: Clock, take: Callable[[Event], None]
    ) -> None:
        self._addresses = addresses
        self._transport = transport
        self._hello = hello
        self._clock = clock
        self._take = take
        self._by_sid: dict[int, OutgoingMessages] = {}
        self._sids: dict[Connection, int] = {}
        self._ended: dict[int, asyncio.Event] = {}
        self._complaints: dict[int, str] = {}
        self._names = {sid: name for name, sid in addresses.by_name.items()}
        self._met_at: dict[int, str] = {}  # of members: where the process listens whose connection was the last one
        self._refused: dict[int, tuple[str, str]] = {}  # of members only: id of the process, and why
        self._dialling: list[asyncio.Task[None]] = []
        self._probes: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None
        self._next_stranger = -1
        self._is_paused = False
        self.announced: dict[str, str] = {}
        self.malformed = 0
        self.failures = 0

    async def open(self) -> None:
        """Listen (a member does) and begin to dial. Raises AddressInUse."""
        if self._addresses.sid is not None:
            self._listener = await self._transport.listen(self._addresses.listen, self._hello, self)
        loop = asyncio.get_running_loop()
        for sid in self._addresses.dialled():
            self._dialling.append(loop.create_task(self._keep_dialling(sid), name=f"election dials server {sid}"))

    async def close(self) -> None:
        """Stop dialling and listening, end every connection; no event follows."""
        tasks = [*self._dialling, *self._probes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._dialling.clear()
        self.pause("this node leaves the election")
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    def send(self, sid: int, message: FleMessage) -> None:
        """Send, where a connection is open; it waits while that one has no room. One that cannot take the message is
        closed."""
        outgoing = self._by_sid.get(sid)
        if outgoing is not None:
            outgoing.send(to_opaque(message))

    def send_all(self, message: FleMessage) -> None:
        """Send to every peer with whom a connection is open."""
        for sid in list(self._by_sid):
            self.send(sid, message)

    def probe(self, sid: int) -> None:
        """Learn whether the process of ``sid`` is dead: PeerDead follows if it is, nothing otherwise."""
        task = asyncio.get_running_loop().create_task(self._probe(sid), name=f"election probes server {sid}")
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _probe(self, sid: int) -> None:
        """Connect under another name. A process that is frozen or cut off lets the attempt time out; only a host on
        which no process listens any more refuses it. An attempt that broke on its way says nothing, and is repeated:
        the process may have ended since."""
        until = self._clock.now() + CONNECT_SECONDS / 2
        hello = msgspec.structs.replace(self._hello, node=f"{self._hello.node} (probe)")
        try:
            while self._clock.now() < until:
                try:
                    address = self._met_at.get(sid, self._addresses.by_sid[sid])
                    connection = await self._transport.connect(address, hello, _IgnoringHandler(), CONNECT_SECONDS)
                except Unreachable as error:
                    if error.nobody_listens:
                        self._take(PeerDead(sid))
                        return
                    await self._clock.sleep(PROBE_PAUSE_SECONDS)
                else:
                    connection.close("this was a probe of whether the process lives")
                    return
        except Exception:
            self.failures += 1
            log.exception("election: probing server %d failed", sid)

    def hang_up(self, sid: int, reason: str, for_good: bool = False) -> None:
        """Close the connection to ``sid``. ``for_good``: later ones of the same process are closed at once."""
        outgoing = self._by_sid.get(sid)
        if outgoing is not None:
            connection = outgoing.connection
            if for_good and sid >= 0:  # a node that is no member has another id in each connection
                self._refused[sid] = connection.peer.process_id, reason
            log.warning("election: closing the connection to server %d: %s", sid, reason)
            self._forget(connection)
            connection.close(reason)

    def pause(self, reason: str) -> None:
        """Close every connection, without events about their ends, and have none until :meth:`resume`."""
        self._is_paused = True
        open_now, self._by_sid = list(self._by_sid.values()), {}
        self._sids.clear()
        for outgoing in open_now:
            outgoing.end()
            outgoing.connection.close(reason)
        for ended in self._ended.values():
            ended.set()

    def resume(self) -> None:
        """Have connections again."""
        self._is_paused = False

    # --- Handler -----------------------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A member or an observer from outside has connected; a newer connection of a node replaces the older."""
        if self._is_paused:
            connection.close("this node takes no part in the election now")
            return
        if connection.peer.role is not Role.META:
            connection.close(f"only meta servers take part in an election, and this is a {connection.peer.role}")
            return
        sid = self._addresses.by_name.get(connection.peer.node)
        if sid is None:
            if sum(open_sid < 0 for open_sid in self._by_sid) >= MOST_STRANGERS:
                connection.close(f"{MOST_STRANGERS} nodes that are no members are connected already")
                return
            sid, self._next_stranger = self._next_stranger, self._next_stranger - 1
        elif sid == self._addresses.sid:
            log.warning(
                "election: the process at %s has the name of this node, %s", connection.address, connection.peer.node
            )
            connection.close(f"{connection.peer.node} is the name of this node")
            return
        process_id, why = self._refused.get(sid, ("", ""))
        if connection.peer.process_id == process_id:
            connection.close(why)  # it replaces no connection of a process that fits
            return
        older = self._by_sid.get(sid)
        if older is not None:
            self._forget(older.connection)
            older.connection.close("replaced by a newer connection")
        self._by_sid[sid] = OutgoingMessages(connection, self._clock, partial(self.hang_up, sid))
        self._sids[connection] = sid
        if sid >= 0:
            self._meet(sid, connection.peer)
        self._take(PeerConnected(sid))

    def _meet(self, sid: int, hello: Hello) -> None:
        """A hello may come from anybody: an address that is none is not used."""
        is_announced = _is_address(hello.address)
        self._met_at[sid] = hello.address if is_announced else self._addresses.by_sid[sid]
        if is_announced:
            self.announced[hello.node] = hello.address
        else:
            self.announced.pop(hello.node, None)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """A message; one that does not belong to the election is dropped and counted."""
        sid = self._sids.get(connection)
        if sid is None:
            return
        try:
            if not isinstance(message, Opaque):
                raise MalformedFrame(f"a {type(message).__name__} where an Opaque belongs")
            content = from_opaque(message)
        except MalformedFrame as error:
            self.malformed += 1
            log.warning("election: dropped a message of server %d: %s", sid, error)
            return
        self._take(Received(sid, content))

    def closed(self, connection: Connection, reason: str) -> None:
        """The peer ended, or closed the connection."""
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        sid = self._sids.pop(connection, None)
        if sid is None:
            return
        self._by_sid.pop(sid).end()
        if sid in self._ended:
            self._ended[sid].set()
        self._take(PeerDisconnected(sid))

    # --- dialling ----------------------------------------------------------------------------------------------------

    async def _keep_dialling(self, sid: int) -> None:
        pause = FIRST_REDIAL_SECONDS
        while True:
            began = self._clock.now()
            try:
                await self._until_unmet(sid)
                await self._stay_connected(sid)
            except Exception:  # supervised: whatever happened, the next attempt is made
                self.failures += 1
                log.exception("election: dialling server %d failed", sid)
            if self._clock.now() - began > LONGEST_REDIAL_SECONDS:
                pause = FIRST_REDIAL_SECONDS
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_REDIAL_SECONDS)

    async def _until_unmet(self, sid: int) -> None:
        """Return when there is no connection to the member. A member that has moved may have connected by itself."""
        while True:
            if not self._addresses.dials(sid):
                await self._clock.sleep(UNMET_SECONDS)
            if sid not in self._by_sid:
                return
            ended = self._ended[sid] = asyncio.Event()
            await ended.wait()

    async def _stay_connected(self, sid: int) -> None:
        """Connect, and return when the connection has ended or none could be made."""
        ended = self._ended[sid] = asyncio.Event()
        address = self.announced.get(self._names[sid], self._addresses.by_sid[sid])
        try:
            connection = await self._transport.connect(address, self._hello, self, CONNECT_SECONDS)
        except (Unreachable, Refused) as error:
            self.announced.pop(self._names[sid], None)
            if str(error) != self._complaints.get(sid):
                self._complaints[sid] = str(error)
                log.info("election: no connection to server %d: %s", sid, error)
            self._take(PeerUnreachable(sid))
            return
        self._complaints.pop(sid, None)
        if connection in self._sids:
            await ended.wait()


def _is_address(text: str) -> bool:
    """Whether it is ``host:port``."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65_536
