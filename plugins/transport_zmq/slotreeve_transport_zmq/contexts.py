"""libzmq contexts, each shared by many transports of a process, because each context has threads of its own.

A process with thousands of clients has thousands of transports, possibly in several threads.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import resource
import threading

import zmq
from slotreeve.keys import KeyRing

from slotreeve_transport_zmq.admission import Admission, ZapThread

MAX_SOCKETS = 60_000
"""Each outgoing connection needs three: its own and two of its monitor."""

MOST_USERS = 256
"""Transports that share one context. libzmq looks at every monitored connection of a context whenever it closes a
socket of that context: with 2,000 connections in one, that was a sixth of the processor time of moving them."""

_lock = threading.Lock()
_domains = itertools.count(1)
_shared: list[SharedContext] = []
# No other thread holds the lock while a process forks, or nobody would release it in the new one.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class SharedContext:
    """A context of transports with the same number of I/O threads. :func:`take_context` makes it."""

    def __init__(self, io_threads: int) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads)
        self.context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
        self.pid = os.getpid()
        self.users = 0
        self.io_threads = io_threads
        self._zap: ZapThread | None = None

    def admit(self, keys: KeyRing) -> Admission:
        """Ask these keys whom listeners take."""
        with _lock:
            if self._zap is None:
                self._zap = ZapThread(self.context)
            admission = Admission(f"slotreeve-{next(_domains)}", keys)
            self._zap.admit(admission)
            return admission

    def admit_no_more(self, admission: Admission) -> None:
        """Its listeners are closed."""
        with _lock:
            if self._zap is not None:
                self._zap.admit_no_more(admission)

    def give_back(self) -> None:
        """The caller has closed its sockets. Blocks the last caller until libzmq has sent what it will send."""
        with _lock:
            self.users -= 1
            if self.users > 0:
                return
            _shared.remove(self)
        if self._zap is not None:
            self._zap.stop()
        self.context.term()


def take_context(io_threads: int) -> SharedContext:
    """A context of the process with so many I/O threads, and room for another user. The caller must give it back
    once."""
    with _lock:
        for shared in _shared:
            # The threads of a context are not there in a process that was forked from the one that made it.
            if shared.pid == os.getpid() and shared.io_threads == io_threads and shared.users < MOST_USERS:
                break
        else:
            _raise_open_files_limit()
            shared = SharedContext(io_threads)
            _shared.append(shared)
        shared.users += 1
        return shared


def _raise_open_files_limit() -> None:
    """A connection needs one descriptor at the accepting end and four at the dialling end, and many systems start
    processes with a soft limit of 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def draw_first_number() -> None:
    """Let nobody know which numbers the connections of the next listener have. A ROUTER counts them from ``rand()`` on,
    for which libzmq draws no seed. A peer may choose its own number, and libzmq ends the process at a number that is
    taken: nobody may know which one comes soon."""
    ctypes.CDLL(None).srand(ctypes.c_uint(int.from_bytes(os.urandom(4), "little")))
