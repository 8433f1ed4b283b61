"""CURVE: whom a listener lets in, and what the sockets of both ends have to know (ZeroMQ's RFCs 26 and 27)."""

from __future__ import annotations

import logging
import threading

import zmq
from slotreeve.keys import KeyPair, KeyRing, Principal
from zmq.utils import z85

log = logging.getLogger("slotreeve.transport")

USER_ID = "User-Id"
"""The property of a frame that holds the public key of its sender: the answer to ZAP's question puts it there."""

ZAP_ENDPOINT, ZAP_VERSION = "inproc://zeromq.zap.01", b"1.0"
ADMITTED, REFUSED, FAILED = b"200", b"400", b"500"


class Admission:
    """Whom the listeners of one transport let in. ZAP's thread asks before libzmq reads any packet of a peer.

    Attributes:
        domain: the name by which libzmq asks for these listeners.
        keys: who may come in.
        refused: where the peer is that was refused last, and its key, until a listener has logged it. ZAP's thread
            sets it.
    """

    def __init__(self, domain: str, keys: KeyRing) -> None:
        self.domain = domain
        self.keys = keys
        self.refused = ""

    def admits(self, key: str, address: str) -> bool:
        """Whether the holder of this public key may come in."""
        if self.keys.trusted.holder(key) is not None:
            return True
        self.refused = f"{address} with the key {key}"
        return False


class ZapThread:
    """Answers libzmq in all that it asks about peers of one context (ZeroMQ's RFC 27), in a thread of its own.

    ``zmq.auth.thread`` does the same with an event loop, takes several times as long for each answer, and does not say
    where a refused peer is. Strangers that connect again and again would cost the servers that time.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._admissions: dict[bytes, Admission] = {}
        self._asked = context.socket(zmq.REP)
        self._asked.linger = 0
        self._stop, self._stopped = _pair_of(context)
        self._thread = threading.Thread(target=self._run, name="zap", daemon=True)
        try:
            self._asked.bind(ZAP_ENDPOINT)
            self._thread.start()
        except (zmq.ZMQError, RuntimeError):  # no more threads, say; open sockets would hold up the end of the context
            for socket in (self._asked, self._stop, self._stopped):
                socket.close(0)
            raise

    def admit(self, admission: Admission) -> None:
        """Answer for the listeners of its domain."""
        self._admissions[admission.domain.encode("ascii")] = admission

    def admit_no_more(self, admission: Admission) -> None:
        """Its listeners are closed."""
        self._admissions.pop(admission.domain.encode("ascii"), None)

    def stop(self) -> None:
        """End the thread. Blocks until it has ended."""
        self._stop.send(b"")
        self._thread.join()
        self._stop.close()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._asked, zmq.POLLIN)
        poller.register(self._stopped, zmq.POLLIN)
        while self._stopped not in dict(poller.poll()):
            self._asked.send_multipart(self._answer(self._asked.recv_multipart()))
        self._stopped.close()
        self._asked.close()

    def _answer(self, question: list[bytes]) -> list[bytes]:
        user_id = b""
        try:
            _, _, domain, address, _, mechanism, *credentials = question
            admission, status = self._admissions.get(domain), REFUSED
            if admission is not None and mechanism == b"CURVE":
                key = z85.encode(credentials[0])
                if admission.admits(key.decode("ascii"), address.decode("utf-8", "replace")):
                    status, user_id = ADMITTED, key
        except Exception:
            log.exception("a peer is refused, because it could not be looked up whether its key is trusted")
            status = FAILED
        return [ZAP_VERSION, question[1], status, b"", user_id, b""]


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


def _pair_of(context: zmq.Context[zmq.Socket[bytes]]) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
    """Two sockets, each of which gets what the other sends."""
    one, other = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    address = f"inproc://{id(one)}"
    one.bind(address)
    other.connect(address)
    return one, other
