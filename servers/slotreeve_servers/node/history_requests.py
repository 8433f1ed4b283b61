"""Answers to people who ask a server of the past, in pages, so that no answer holds up anybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from slotreeve.errors import NotThere
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_events.history import ServerHistory
from slotreeve_events.history_files import HistoryFiles, StateAt
from slotreeve_protocol.general_messages import Failed
from slotreeve_protocol.history_messages import (
    MOST_EVENTS,
    ChangePage,
    EventPage,
    GetChanges,
    GetEvents,
    GetServiceAt,
    HistoryEvent,
    ServiceAt,
)

from slotreeve_servers.node.deltas import PART_BYTES, size_of
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.outbox import Outbox, Peer, Request


def add_history(
    handlers: Handlers, outbox: Outbox, history: ServerHistory | None, *, of_services: bool = False
) -> None:
    """Let handlers answer questions of the past; with ``of_services`` those about services, too."""
    asking = _Asking(outbox, history)
    handlers.later[GetEvents] = asking.events
    if of_services:
        handlers.later[GetServiceAt] = asking.service_at
        handlers.later[GetChanges] = asking.changes


class _Asking:
    def __init__(self, outbox: Outbox, history: ServerHistory | None) -> None:
        self._outbox, self._history = outbox, history
        # The state that was asked for last, where pages of it are left. One question is answered at a time.
        self._paged: tuple[str, int, StateAt] | None = None

    def _ask(self, request: Request, question: Callable[[HistoryFiles], Message]) -> None:
        if self._history is None:
            raise NotThere("this server keeps no history (history.enabled, or its log says why)")

        def answered(reply: Message | None, error: Exception | None) -> None:
            if reply is None:
                reply = Failed(NotThere.code, f"the history of this server cannot be read: {error}")
            self._outbox.reply(request, reply)

        self._history.ask(question, answered)

    def events(self, peer: Peer, asked: GetEvents, request: Request) -> None:
        """See GetEvents."""
        lost = self._history.lost if self._history is not None else 0
        self._ask(request, partial(_events, asked, lost))

    def service_at(self, peer: Peer, asked: GetServiceAt, request: Request) -> None:
        """See GetServiceAt."""
        self._ask(request, partial(self._service_at, asked))

    def _service_at(self, asked: GetServiceAt, files: HistoryFiles) -> ServiceAt:
        found = self._state(asked, files)
        records = [record for record in found.records if record.register_id > asked.after]
        left, page = PART_BYTES, list[Publisher]()
        for record in records:
            left -= size_of(record)
            if left < 0 and page:
                break
            page.append(record)
        more = len(page) < len(records)
        self._paged = (asked.data_info_id, asked.at_ms, found) if more else None
        return ServiceAt(found.known, found.since_ms, found.leader_epoch, files.begins_ms, page, more)

    def _state(self, asked: GetServiceAt, files: HistoryFiles) -> StateAt:
        """The state with its records sorted. The pages of one are read once, and are of one moment."""
        if asked.after and self._paged is not None and self._paged[:2] == (asked.data_info_id, asked.at_ms):
            return self._paged[2]
        found = files.state(asked.data_info_id, asked.at_ms)
        return replace(found, records=sorted(found.records, key=lambda record: record.register_id))

    def changes(self, peer: Peer, asked: GetChanges, request: Request) -> None:
        """See GetChanges."""
        self._ask(request, partial(_changes, asked))


def _events(asked: GetEvents, lost: int, files: HistoryFiles) -> EventPage:
    most = max(1, min(asked.most, MOST_EVENTS))
    found, more = files.events(
        asked.since_ms, asked.until_ms, asked.kinds, asked.after, most, PART_BYTES, newest_first=asked.newest_first
    )
    page = [HistoryEvent(event.place, event.body) for event in found]
    return EventPage(files.begins_ms, lost + files.lost, page, more)


def _changes(asked: GetChanges, files: HistoryFiles) -> ChangePage:
    most = max(1, min(asked.most, MOST_EVENTS))
    found, more = files.changes(asked.data_info_id, asked.since_ms, asked.until_ms, most, PART_BYTES)
    return ChangePage(files.begins_ms, found, more)
