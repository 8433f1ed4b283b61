"""What happened, in sentences for people. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.data_info import short_name
from slotreeve.model.text import UNDECODABLE
from slotreeve_protocol.envelope import decode_instance
from slotreeve_protocol.history_messages import KnownState, RecordedChange

from slotreeve_events.schema import HistoryNote, SlotMove

MOST_NAMED = 3
_decoder = msgspec.json.Decoder(HistoryNote)


def decoded_event(body: bytes) -> HistoryNote:
    """An event as a server sent it.

    Raises:
        ModelError: it is none; perhaps a server of another version has sent it.
    """
    try:
        return _decoder.decode(body)
    except UNDECODABLE as error:
        raise ModelError(
            f"an event of the history cannot be read: {error}; a newer slotreeve may have written it"
        ) from None


def provider_text(change: RecordedChange) -> str:
    """Who a registration is, for people: the address of its instance, or what it published."""
    instance = decode_instance(change.data)
    if instance is not None:
        return f"{instance.endpoint} ({instance.id})" if instance.id != instance.endpoint else instance.endpoint
    text = ", ".join(part.decode("utf-8", "backslashreplace") for part in change.data)
    return f"{text} ({change.register_id})" if text else change.register_id


def change_sentence(change: RecordedChange) -> str:
    """One change of a registration."""
    who = provider_text(change)
    if change.is_gone:
        again = f"; it ended {change.ends} times within a moment" if change.ends > 1 else ""
        return f"{who} ended: {change.reason or 'the reason is not known'}{again}."
    if change.ends:
        times = "once" if change.ends == 1 else f"{change.ends} times"
        return f"{who} ended {times} and is registered again: {change.reason}."
    return f"{who} was registered, or changed (version {change.version}, session process {change.session})."


def sentence(event: HistoryNote) -> str:
    """One event. Kinds that this version does not know are told by their fields."""
    tell = _TELL.get(event.kind)
    return tell(event) if tell is not None else f"{event.kind}: {event.reason or ''}".rstrip(": ")


def move_sentence(move: SlotMove) -> str:
    """One move of a slot."""
    way = " ".join(f"{word} {name}" for word, name in (("from", move.source), ("to", move.target)) if name)
    return f"slot {move.slot}: {move.kind} {way} ({move.reason})"


def move_sentences(event: HistoryNote, slot: int) -> list[str]:
    """What an event says of one slot: its moves, or what it waits for."""
    if slot in (event.slots or ()):
        return [_unreadable(event, slot) if event.unreadable_ms else sentence(event)]
    moves = [move for move in event.moves or () if move.slot == slot]
    return [f"{move_sentence(move)}, in table {event.epoch} by {event.node}." for move in moves]


def tables_sentence(events: Sequence[HistoryNote]) -> str:
    """Commits of slot tables by one server that followed each other, the oldest first: as one."""
    first, last = events[0], events[-1]
    if len(events) == 1:
        return sentence(first)
    moves = [move for event in events for move in event.moves or ()]
    return _moved(f"{first.node} committed {len(events)} tables, {first.epoch} to {last.epoch}", moves, last.reason)


def _table(event: HistoryNote) -> str:
    return _moved(f"{event.node} committed table {event.epoch}", event.moves or (), event.reason)


def _moved(head: str, moves: Sequence[SlotMove], reason: str | None) -> str:
    if not moves:
        return f"{head}: {reason}."
    reasons = Counter(move.reason for move in moves)
    shown = "; ".join(f"{_moves(count)}: {reason}" for reason, count in reasons.most_common(MOST_NAMED))
    more = f"; and {len(reasons) - MOST_NAMED} more reasons" if len(reasons) > MOST_NAMED else ""
    return f"{head}: {shown}{more}."


def _moves(count: int) -> str:
    return "1 move" if count == 1 else f"{count} moves"


def _leader(event: HistoryNote) -> str:
    if event.leader is None:
        return f"{event.node} knows no leader: {event.reason}."
    does = "leads" if event.leader == event.node else f"follows {event.leader}"
    return f"{event.node} {does} in term {event.term}: {event.reason}."


def _pushed(event: HistoryNote) -> str:
    waited = "" if event.waited_ms is None else f" at most {event.waited_ms:.1f} ms after the change arrived there"
    times = "" if (event.count or 1) == 1 else f" {event.count} times"
    subscribers = "1 subscriber" if event.subscribers == 1 else f"{event.subscribers} subscribers"
    what = short_name(event.service) if event.service else "other services"
    return f"{event.node} pushed {what}{times} to {subscribers}{waited}."


def _unreadable(event: HistoryNote, slot: int | None = None) -> str:
    times = dict(zip(event.slots or (), event.unreadable_ms or (), strict=False))
    if slot is not None:
        times = {slot: times.get(slot, 0.0)}
    longest = max(times.values(), default=0.0)
    long = f"{longest:.0f} ms" if longest < 10_000 else f"{longest / 1000:.1f} s"
    numbers = sorted(times)
    if len(numbers) == 1:
        return f"slot {numbers[0]} could not be read for {long}: {event.reason}."
    named = ", ".join(map(str, numbers[:MOST_NAMED])) + (", ..." if len(numbers) > MOST_NAMED else "")
    what = f"{len(numbers)} slots ({named}) could not be read for up to {long}"
    return f"{what}: {event.reason}."


def _ordered(event: HistoryNote) -> str:
    return f"{event.author} at {event.address} ordered {event.node}: {event.reason}."


def _denied(event: HistoryNote) -> str:
    place = f" at {event.address}" if event.address else ""
    times = "" if (event.count or 1) == 1 else f", {event.count} times"
    by = f" by {event.member}" if event.member else f" by {event.node}"
    return f"{event.author}{place} was denied{by}{times}: {event.reason}."


def _configured(event: HistoryNote) -> str:
    return f"{event.author} at {event.address} wrote {event.key} (version {event.version}): {event.reason}."


_TELL: dict[str, Callable[[HistoryNote], str]] = {
    "started": lambda e: f"{e.role} server {e.node} started: {e.reason}.",
    "stopped": lambda e: f"{e.node} stopped in order.",
    "leader": _leader,
    "table": _table,
    "node_joined": lambda e: f"{e.role} server {e.member} joined{f' in zone {e.zone}' if e.zone else ''}.",
    "node_left": lambda e: f"{e.role} server {e.member} left: {e.reason}.",
    "loads": lambda e: f"loads of {len(e.loads or ())} slots changed.",
    "pushed": _pushed,
    "client_joined": lambda e: f"client {e.member} connected to {e.node} from {e.address}.",
    "client_left": lambda e: f"client {e.member} at {e.address} left {e.node}: {e.reason}.",
    "configured": _configured,
    "ordered": _ordered,
    "denied": _denied,
    "slots_wait": lambda e: f"{e.node}: {e.reason}.",
    "slots_unreadable": _unreadable,
    "gap": lambda e: f"{e.node}: the history has a gap: {e.reason}.",
    "alarm": lambda e: f"{e.node}: {e.reason}",
    "critical": lambda e: f"{e.node}: {e.reason}",
    "error": lambda e: f"{e.node}: {e.reason}",
    "warning": lambda e: f"{e.node}: {e.reason}",
}


def newest_first(events: Sequence[HistoryNote]) -> list[HistoryNote]:
    """Events of several servers in the order of their clocks."""
    return sorted(events, key=lambda event: event.at_ms, reverse=True)


def known_text(known: KnownState, server: str, at: str, since: str) -> str:
    """How it is known what a service was. ``at``: the time in question; ``since``: of the change that
    :class:`slotreeve_protocol.history_messages.KnownState` names; both as the reader is to see them."""
    return {
        KnownState.EXACTLY: f"as of {at}; the last change before was at {since}, told by {server}",
        KnownState.BEFORE_A_CHANGE: f"as before the first change that is known, at {since}, told by {server}",
        KnownState.AS_NOW: f"as now: it did not change after {since}, told by {server}",
        KnownState.NOTHING: "as now: no server knows a change of it",
    }[known]


def may_begin_too_late(known: KnownState) -> bool:
    """Whether such an answer may be wrong where a history begins after the time in question."""
    return known in (KnownState.NOTHING, KnownState.BEFORE_A_CHANGE)


def silent_text(servers: Sequence[str], reason: str) -> str:
    """Servers gave no answer, all for the same reason."""
    does = "does" if len(servers) == 1 else "do"
    return f"{', '.join(servers)} {does} not tell of the past: {reason}"


def begins_text(begins: str) -> str:
    """The history of a server begins within the time in question. ``begins``: as the reader is to see it."""
    return f"the history of a server begins at {begins}; what was before is not in it"
