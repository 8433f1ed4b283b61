"""The history of a run as JSON lines, written during the run and read by the checker.

Every record has ``t`` (seconds since the run began) and ``kind``; the other fields depend on the kind:

=============  ====================================================================================================
``published``  ``register_id``, ``service``, ``sequence``: the writer published (sequence counts from 1)
``ended``      ``register_id``, ``service``: the writer unpublished
``subscribed`` ``subscriber``, ``service``: from here on the subscriber must come to see the service
``died``       ``register_ids``: their provider process was killed or closed
``seen``       ``subscriber``, ``service``, ``version``, ``instances`` ({register id: sequence}): a callback
``leased``     ``register_id``, ``service``, ``ttl``, ``sent``: a lease was registered, by a request of that time
``renewed``    ``register_ids``, ``sent``: leases were renewed, by a request of that time
``unknown``    ``register_id``: a renewal was answered that there is no such lease
``lapses``     ``register_id``: nobody renews the lease from here on
``leader``     ``asked``, ``leader``, ``term``: what a meta server said
``view``       ``term``, ``epoch``, ``revision``: the newest committed view
``late``       ``seconds``: the run itself got no processor for so long before
``fault``      ``what``, ``target``, ``phase`` (``begin`` or ``end``)
``raised``     ``server``, ``what``: the log of a server has an exception
``final``      ``expected`` ({service: {register id: sequence}}): all was healed, and this is published
=============  ====================================================================================================
"""

from __future__ import annotations

import contextlib
import heapq
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from slotreeve.errors import ConfigError


class HistoryRecorder:
    """Appends to one file; a context manager.

    ``began`` is when the run began, by ``time.monotonic``, which all processes of a machine share; default: now.
    """

    def __init__(self, file: Path, began: float | None = None) -> None:
        self._file = file.open("w", encoding="utf-8")
        self.began = time.monotonic() if began is None else began

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    def append(self, kind: str, **fields: object) -> None:
        """One record."""
        self._file.write(json.dumps({"t": round(self.now, 6), "kind": kind, **fields}, separators=(",", ":")) + "\n")

    @contextlib.contextmanager
    def fault(self, what: str, target: str) -> Iterator[None]:
        """Record the begin and the end of a fault, which lasts as long as the block."""
        self.append("fault", what=what, target=target, phase="begin")
        yield
        self.append("fault", what=what, target=target, phase="end")

    def __enter__(self) -> HistoryRecorder:
        """The recorder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()


def merge(parts: Iterable[Path], into: Path) -> None:
    """Write the records of several histories of one run into one, in the order of time.

    Raises:
        ConfigError: as :func:`read`.
    """
    with into.open("w", encoding="utf-8") as merged:
        for record in heapq.merge(*(read(part) for part in parts), key=lambda record: float(record["t"])):
            merged.write(json.dumps(record, separators=(",", ":")) + "\n")


def read(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a history, in order.

    Raises:
        ConfigError: the file cannot be read, or a line (which) is no record.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    record["t"], record["kind"]
                except (ValueError, KeyError, TypeError) as error:
                    raise ConfigError(f"{file}, line {number}: no record of a history: {error}") from None
                yield record
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
