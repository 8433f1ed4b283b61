"""Checks of the meta state between turns of the event loop: what was committed once is held by every later leader."""

from __future__ import annotations

from functools import partial

from slotreeve.ports import Versioned
from slotreeve_servers.meta.server import MetaServer

from slotreeve_simulator.verdict import RunVerdict


class StateWatch:
    """Checks two consequences of I18 on the meta servers of one cluster. A version of a key has one committed value,
    whichever server reports it. A server that begins to lead holds every version that any server reported before."""

    def __init__(self, verdict: RunVerdict) -> None:
        self._verdict = verdict
        self._watched: dict[str, MetaServer] = {}
        self._led: dict[str, int] = {}
        self._committed: dict[tuple[str, int], tuple[int, int]] = {}
        self._newest: dict[str, int] = {}
        self._terms: dict[str, int] = {}

    def look(self, name: str, server: MetaServer, now: float) -> None:
        """A turn has ended. ``now``: on the clock of that server."""
        if self._watched.get(name) is not server:
            self._watched[name] = server
            self._led.pop(name, None)
            server.election.state.watch(partial(self._changed, name))
        leadership = server.leadership()
        # After its lease, another server may have led and committed more.
        if leadership.leading and now < leadership.valid_until and self._led.get(name) != leadership.term:
            self._led[name] = leadership.term
            self._check(name, server, leadership.term)

    def term_of_writes(self, name: str) -> int:
        """The highest term of a write that the server has reported, and so has in its log; 0 if there is none."""
        return self._terms.get(name, 0)

    def wiped(self, name: str) -> None:
        """The server has another directory from now on."""
        self._terms.pop(name, None)

    def counted_anew(self) -> None:
        """The meta state was lost: terms and versions begin anew."""
        for known in (self._led, self._committed, self._newest, self._terms):
            known.clear()

    def _check(self, name: str, server: MetaServer, term: int) -> None:
        for key, newest in self._newest.items():
            stored = server.election.state.read(key)
            version = 0 if stored is None else stored.version
            if version < newest:
                self._verdict.violate(
                    "I18", f"{name} leads in term {term} with version {version} of {key}; {newest} was committed before"
                )

    def _changed(self, name: str, key: str, stored: Versioned) -> None:
        self._terms[name] = max(self._terms.get(name, 0), stored.term)
        content = (stored.term, hash(stored.value))
        if self._committed.setdefault((key, stored.version), content) != content:
            self._verdict.violate(
                "I18", f"{name} reports another value as version {stored.version} of {key} than was committed before"
            )
        self._newest[key] = max(self._newest.get(key, 0), stored.version)
