"""CURVE: whom a listener lets in, and what the sockets of both ends have to know (ZeroMQ's RFCs 26 and 27)."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections import deque

import zmq
from slotreeve.clock import MachineClock
from slotreeve.keys import KeyPair, KeyRing, Principal
from zmq.utils import z85

log = logging.getLogger("slotreeve.transport")

USER_ID = "User-Id"
"""The property of a frame that holds the public key of its sender: the answer to ZAP's question puts it there."""

ZAP_ENDPOINT, ZAP_VERSION = "inproc://zeromq.zap.01", b"1.0"
STOP = [b"stop"]
ADMITTED, REFUSED, FAILED = b"200", b"400", b"500"
CROWD_SECONDS = 1.0
"""A stranger that comes within this time after another one has to wait for its refusal, so that a flood of those that
wait costs a server less. A single process with a wrong key learns at once why it is refused."""
REFUSAL_SECONDS = 0.5
"""How long such a stranger waits."""


class Admission:
    """Whom the listeners of one transport let in. ZAP's thread asks before libzmq reads any packet of a peer.

    Attributes:
        domain: the name by which libzmq asks for these listeners.
        keys: who may come in.
    """

    def __init__(self, domain: str, keys: KeyRing) -> None:
        self.domain = domain
        self.keys = keys
        self._lock = threading.Lock()
        self._refusals, self._refused = 0, ""

    def admits(self, key: str, address: str) -> bool:
        """Whether the holder of this public key may come in. ZAP's thread calls it."""
        if self.keys.trusted.holder(key) is not None:
            return True
        with self._lock:
            self._refusals += 1
            self._refused = self._refused or f"{address} with the key {key}"
        return False

    def newly_refused(self) -> tuple[int, str]:
        """How many were refused since the last call; where the first of them is, and its key."""
        with self._lock:
            new = self._refusals, self._refused
            self._refusals, self._refused = 0, ""
        return new


class ZapThread:
    """Answers libzmq in all that it asks about peers of one context (ZeroMQ's RFC 27), in a thread of its own.

    ``zmq.auth.thread`` does the same with an event loop, takes several times as long for each answer, and does not say
    where a refused peer is. Strangers that connect again and again would cost the servers that time.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._admissions: dict[bytes, Admission] = {}
        self._clock = MachineClock()
        self._refusals: deque[tuple[float, list[bytes]]] = deque()
        self._last_stranger = -math.inf
        self._thread = threading.Thread(target=self._run, name="zap", daemon=True)
        with contextlib.ExitStack() as opened:  # without it, open sockets would keep the context from ending
            self._asked = opened.enter_context(context.socket(zmq.ROUTER))
            self._teller = opened.enter_context(context.socket(zmq.DEALER))
            self._asked.linger = self._teller.linger = 0
            self._asked.bind(ZAP_ENDPOINT)
            self._teller.connect(ZAP_ENDPOINT)
            self._thread.start()
            opened.pop_all()

    def admit(self, admission: Admission) -> None:
        """Answer for the listeners of its domain."""
        self._admissions[admission.domain.encode("ascii")] = admission

    def admit_no_more(self, admission: Admission) -> None:
        """Its listeners are closed."""
        self._admissions.pop(admission.domain.encode("ascii"), None)

    def stop(self) -> None:
        """End the thread. Blocks until it has ended."""
        self._teller.send_multipart(STOP)
        self._thread.join()
        self._teller.close(0)

    def _run(self) -> None:
        while (question := self._next_question())[1:] != STOP:
            if question:
                self._answer(question)
            while self._refusals and self._refusals[0][0] <= self._clock.now():
                self._asked.send_multipart(self._refusals.popleft()[1])
        self._asked.close()

    def _next_question(self) -> list[bytes]:
        """With who asks before it; empty where a refusal is due earlier."""
        wait = max(0.0, self._refusals[0][0] - self._clock.now()) if self._refusals else None
        self._asked.setsockopt(zmq.RCVTIMEO, -1 if wait is None else math.ceil(1_000 * wait))
        try:
            return self._asked.recv_multipart()
        except zmq.Again:
            return []

    def _answer(self, question: list[bytes]) -> None:
        """Let a peer in, or refuse it: at once, or later where others were refused just before."""
        who_asks, _, _, request, *asked = question
        status, user_id = self._status_of(asked)
        answer = [who_asks, b"", ZAP_VERSION, request, status, b"", user_id, b""]
        if status != ADMITTED:
            now, before = self._clock.now(), self._last_stranger
            self._last_stranger = now
            if now < before + CROWD_SECONDS:
                self._refusals.append((now + REFUSAL_SECONDS, answer))
                return
        self._asked.send_multipart(answer)

    def _status_of(self, asked: list[bytes]) -> tuple[bytes, bytes]:
        """ZAP's status of a peer, and its user id where it is let in."""
        try:
            domain, address, _, mechanism, *credentials = asked
            admission = self._admissions.get(domain)
            if admission is not None and mechanism == b"CURVE":
                key = z85.encode(credentials[0])
                if admission.admits(key.decode("ascii"), address.decode("utf-8", "replace")):
                    return ADMITTED, key
        except Exception:
            log.exception("a peer is refused, because it could not be looked up whether its key is trusted")
            return FAILED, b""
        return REFUSED, b""


def new_pair() -> KeyPair:
    """A new key, drawn at random by libzmq."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode("ascii"), secret.decode("ascii"))


def secure_listener(socket: zmq.Socket[bytes], admission: Admission) -> None:
    """Let only holders of trusted keys in. While no thread answers for the domain, nobody is let in."""
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, admission.keys.own.secret.encode("ascii"))
    socket.setsockopt(zmq.ZAP_DOMAIN, admission.domain.encode("ascii"))


def secure_dialler(socket: zmq.Socket[bytes], keys: KeyRing, expected: Principal) -> None:
    """Prove who this process is, and connect only to the holder of the expected key."""
    socket.setsockopt(zmq.CURVE_SERVERKEY, expected.key.encode("ascii"))
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.own.public.encode("ascii"))
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.own.secret.encode("ascii"))


def proven_by(frame: zmq.Frame, keys: KeyRing | None) -> Principal | None:
    """Who sent a frame. None where no keys are used, or its key is not trusted any more."""
    if keys is None:
        return None
    try:
        return keys.trusted.holder(str(frame.get(USER_ID)))
    except zmq.ZMQError:  # it came over a connection without CURVE; a listener with keys takes none
        return None
