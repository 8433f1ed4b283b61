"""Servers of one ensemble without connections, disks or clocks of their own: what the transcripts are played on.

Commands, one a line; messages arrive, in the order in which they were sent, until none is under way:

    servers 1 2 3           these servers, with empty disks, not started
    begins_without 3        the first election of all does not wait for this server
    voted 3 4 2             before the beginning, server 3 has accepted epoch 4 and logged 2 entries of it
    start 1 2               processes start, from what their disks hold; none is connected
    connect 1 2             a connection between two servers is open
    cut 1 2                 it ends on both sides
    isolate 3               no message from or to server 3 arrives any more, though its connections stay
    rejoin 3                its messages arrive again
    crash 3                 its process is killed, and its connections end
    wait 0.2                time passes, and servers whose deadline comes are stepped
    write 3 key value       a client of server 3 writes
    resign 3                server 3 gives up leadership
    show                    what each server does

The answer is every effect of every step, in order, but for pings, their answers, and reports of who is heard.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
from slotreeve_election_fle.allowance import Allowance
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.effects import (
    AppendToLog,
    Applied,
    BeginTakingOver,
    Effect,
    HangUp,
    NotWritten,
    Probe,
    ReplaceLog,
    SaveEpochs,
    SaveIdentity,
    SaveSnapshot,
    Send,
    Written,
)
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.events import (
    Event,
    PeerConnected,
    PeerDead,
    PeerDisconnected,
    PeerUnreachable,
    Received,
    WriteAsked,
)
from slotreeve_election_fle.following import Following
from slotreeve_election_fle.identity import Identity, Owner, new_identity
from slotreeve_election_fle.leading import Leading
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.looking import Patience
from slotreeve_election_fle.member import Member
from slotreeve_election_fle.messages import (
    FleMessage,
    Greeting,
    Hears,
    Notification,
    PeerPing,
    PeerPong,
    Propose,
    SyncPart,
)
from slotreeve_election_fle.place import Place
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.timing import FleTiming
from slotreeve_election_fle.vote import NOBODY, Vote, epoch_of, make_zxid
from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked
from slotreeve_machines.storage import MemoryStorage

BACKGROUND = PeerPing | PeerPong | Hears
TIMING = FleTiming(patience=Patience(jitter=0.0))


class ScriptedEnsemble:
    """Plays the commands; :meth:`play` is what a transcript is given."""

    def __init__(self) -> None:
        self._now = 0.0
        self._quorum = Quorum([])
        self._storages: dict[int, MemoryStorage] = {}
        self._disks: dict[int, Disk] = {}
        self._members: dict[int, Member] = {}
        self._wires: deque[tuple[int, int, FleMessage]] = deque()
        self._connected: set[tuple[int, int]] = set()
        self._isolated: set[int] = set()
        self._not_needed: frozenset[int] = frozenset()
        self._lines: list[str] = []
        self._tokens = 0

    def play(self, command: str) -> str:
        """Carry out the commands; what came of them."""
        self._lines = []
        for line in command.splitlines():
            name, *words = line.split()
            handler: Callable[[Sequence[str]], None] = getattr(self, f"_{name}")
            handler(words)
            self._settle()
        return "\n".join(self._lines) or "(nothing)"

    # --- commands ----------------------------------------------------------------------------------------------------

    def _servers(self, words: Sequence[str]) -> None:
        sids = [int(word) for word in words]
        self._quorum = Quorum(sids)
        self._storages = {sid: MemoryStorage() for sid in sids}

    def _begins_without(self, words: Sequence[str]) -> None:
        self._not_needed = frozenset(int(word) for word in words)

    def _voted(self, words: Sequence[str]) -> None:
        sid, epoch, count = (int(word) for word in words)
        disk = Disk(self._storages[sid])
        disk.read_ledger()
        names = [f"server {each}" for each in sorted(self._storages)]
        new = new_identity(Owner(f"server {sid}", names), random.Random(sid))
        disk.write(SaveIdentity(msgspec.structs.replace(new, may_vote=True, is_new=False, admitted_term=1)))
        disk.write(SaveEpochs(epoch, epoch))
        disk.write(AppendToLog([Entry(make_zxid(epoch, n), "key", b"old", n) for n in range(1, count + 1)]))

    def _start(self, words: Sequence[str]) -> None:
        for sid in (int(word) for word in words):
            disk = self._disks[sid] = Disk(self._storages[sid])
            names = [f"server {each}" for each in sorted(self._storages)]
            ledger = Ledger(disk.read_ledger(), 1_000)
            owner = Owner(f"server {sid}", names)
            identity = Identity(disk.read_identity(owner, ledger.accepted_epoch, random.Random(sid)))
            place = Place(sid, False, self._quorum, TIMING, Allowance(begins_without=self._not_needed))
            self._members[sid] = Member(place, ledger, identity, random.Random(sid))
            self._step(sid, Started(), "starts")

    def _connect(self, words: Sequence[str]) -> None:
        one, other = (int(word) for word in words)
        self._connected |= {(one, other), (other, one)}
        self._step(one, PeerConnected(other), f"is connected to {other}")
        self._step(other, PeerConnected(one), f"is connected to {one}")

    def _cut(self, words: Sequence[str]) -> None:
        one, other = (int(word) for word in words)
        self._disconnect(one, other)
        for sid, peer in ((one, other), (other, one)):
            if sid in self._members:
                self._step(sid, PeerDisconnected(peer), f"has lost its connection to {peer}")

    def _isolate(self, words: Sequence[str]) -> None:
        self._isolated.add(int(words[0]))

    def _rejoin(self, words: Sequence[str]) -> None:
        self._isolated.remove(int(words[0]))

    def _crash(self, words: Sequence[str]) -> None:
        dead = int(words[0])
        del self._members[dead]
        for sid in sorted(self._members):
            if (sid, dead) in self._connected:
                self._disconnect(sid, dead)
                self._step(sid, PeerDisconnected(dead), f"has lost its connection to {dead}")

    def _wait(self, words: Sequence[str]) -> None:
        until = self._now + float(words[0])
        while (due := min(member.deadline for member in self._members.values())) <= until:
            self._now = max(self._now, due)
            for sid, member in sorted(self._members.items()):
                if member.deadline <= self._now:
                    self._step(sid, Tick(), "has waited")
            self._settle()
        self._now = until

    def _write(self, words: Sequence[str]) -> None:
        sid, key, value = int(words[0]), words[1], words[2]
        self._tokens += 1
        member = self._members[sid]
        self._step(
            sid, WriteAsked(self._tokens, key, value.encode(), None, member.term), f"is to write {key} = {value}"
        )

    def _resign(self, words: Sequence[str]) -> None:
        self._step(int(words[0]), ResignAsked(), "is to resign")

    def _show(self, _words: Sequence[str]) -> None:
        self._lines.append(f"time {self._now:.3f}")
        for sid in sorted(self._storages):
            member = self._members.get(sid)
            if member is None:
                self._lines.append(f"  {sid} is down")
                continue
            ledger, role = member._ledger, doing(member)
            last = f"{epoch_of(ledger.last_zxid)}.{ledger.last_zxid & 0xFFFFFFFF}"
            epochs = f"accepted epoch {ledger.accepted_epoch}, current epoch {ledger.current_epoch}"
            lease = f", lease until {member.valid_until:.3f}" if member.valid_until else ""
            self._lines.append(f"  {sid} {role}, {epochs}, log ends with {last}{lease}")

    # --- stepping ----------------------------------------------------------------------------------------------------

    def _disconnect(self, one: int, other: int) -> None:
        self._connected -= {(one, other), (other, one)}
        ends = {(one, other), (other, one)}
        self._wires = deque(packet for packet in self._wires if packet[:2] not in ends)

    def _settle(self) -> None:
        while self._wires:
            source, to, message = self._wires.popleft()
            if not {source, to} & self._isolated:
                self._step(to, Received(source, message), f"receives from {source}: {content(message)}")

    def _step(self, sid: int, event: Event, what: str) -> None:
        effects = self._members[sid].step(event, self._now)
        is_pinging = isinstance(event, Received) and isinstance(event.message, BACKGROUND)
        shown = [effect for effect in effects if not is_ping(effect)]
        if shown or not (is_pinging or effects):
            self._lines.append(f"{sid} {what}")
        for effect in effects:
            if effect in shown:
                self._lines.append(f"    {described(effect)}")
            self._perform(sid, effect)

    def _perform(self, sid: int, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                if (sid, to) in self._connected:
                    self._wires.append((sid, to, message))
            case SaveEpochs() | AppendToLog() | ReplaceLog() | SaveSnapshot() | SaveIdentity() | BeginTakingOver():
                self._disks[sid].write(effect)
            case Probe(peer):
                if peer not in self._members:
                    for event, what in (
                        (PeerUnreachable(peer), f"cannot connect to {peer}"),
                        (PeerDead(peer), f"knows that the process of {peer} is dead"),
                    ):
                        self._step(sid, event, what)
            case _:
                pass


def doing(member: Member) -> str:
    match member._role:
        case Leading(phase=phase):
            return f"leading ({phase.name.lower()})"
        case Following(leader=leader, stage=stage):
            return f"following {leader} ({stage.name.lower()})"
        case _:
            return "looking"


def is_ping(effect: Effect) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, BACKGROUND)


def described(effect: Effect) -> str:
    """One effect, for readers."""
    match effect:
        case Send(to, message):
            return f"send to {to}: {content(message)}"
        case HangUp(sid, reason):
            return f"hang up on {sid}: {reason}"
        case Probe(sid):
            return f"probe {sid}"
        case SaveEpochs(accepted, current):
            return f"disk: accepted epoch {accepted}, current epoch {current}"
        case AppendToLog(entries):
            return f"disk: append {logged(entries)}"
        case ReplaceLog(entries):
            return f"disk: the log is {logged(entries)}"
        case SaveSnapshot(zxid):
            return f"disk: snapshot up to {number(zxid)}"
        case SaveIdentity():
            return "disk: identity"
        case BeginTakingOver(epoch):
            return f"disk: taking over a history of epoch {epoch}"
        case Applied(changes):
            return "committed: " + ", ".join(f"{key} = {held.value.decode()}" for key, held in changes)
        case Written(_, version):
            return f"answer the writer: stored as version {version}"
        case NotWritten(_, error):
            return f"answer the writer: {error}"
        case LeadershipChanged(leader, term, leading, cause):
            known = "no leader is known" if leader is None else "leads" if leading else f"follows {leader}"
            return f"REPORT: {known}, term {term} ({cause})"
        case Noted(text):
            return f"note: {text}"


def content(message: FleMessage) -> str:
    """One message, for readers."""
    name = type(message).__name__
    match message:
        case Notification(vote):
            return f"{name} {ballot(vote)}"
        case Greeting(accepted_epoch=epoch, may_vote=may_vote):
            return f"{name} accepted_epoch={epoch} may_vote={may_vote}"
        case SyncPart(items=items, entries=entries):
            return f"{name} {len(items)} items, entries {logged(entries)}"
        case Propose(entries=entries):
            return f"{name} {logged(entries)}"
        case _:
            fields = msgspec.structs.asdict(message)
            shown = (
                f"{key}={number(value) if key.endswith('zxid') else value}"
                for key, value in fields.items()
                if not key.endswith("chain")
            )
            return " ".join([name, *shown])


def ballot(vote: Vote) -> str:
    leader = "nobody" if vote.leader == NOBODY else str(vote.leader)
    return f"{vote.state.name} for {leader}, zxid {number(vote.zxid)}, epoch {vote.peer_epoch}, round {vote.round}"


def logged(entries: Sequence[Entry]) -> str:
    return ", ".join(f"{number(entry.zxid)} {entry.key} = {entry.value.decode()}" for entry in entries) or "none"


def number(zxid: int) -> str:
    return f"{epoch_of(zxid)}.{zxid & 0xFFFFFFFF}"
