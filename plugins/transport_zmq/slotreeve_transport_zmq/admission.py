"""CURVE: whom a listener lets in, and what the sockets of both ends have to know (ZeroMQ's RFCs 26 and 27)."""

from __future__ import annotations

import contextlib
import logging
import threading

import zmq
from slotreeve.keys import KeyPair, KeyRing, Principal
from zmq.auth import Authenticator

log = logging.getLogger("slotreeve.transport")

USER_ID = "User-Id"
"""The property of a frame that holds the public key of its sender: the answer to ZAP's request puts it there."""

ZAP_VERSION, ZAP_ERROR = b"1.0", b"500"


class Admission:
    """Answers for the listeners of one transport whether a peer may come in. ZAP's thread asks before libzmq reads any
    packet of that peer."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def callback(self, _domain: str, key: bytes) -> bool:
        """Whether the holder of this public key may come in. pyzmq's authenticator calls it."""
        return self._keys.trusted.holder(key.decode("ascii")) is not None


class ZapThread:
    """Answers libzmq in all that it asks about peers of one context, in a thread of its own.

    ``zmq.auth.thread`` does the same with an event loop, and takes three times as long for each answer. Strangers that
    connect again and again would cost the servers that time.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._authenticator = Authenticator(context)
        self._authenticator.start()
        self._stop, self._stopped = _pair_of(context)
        self._thread = threading.Thread(target=self._run, name="zap", daemon=True)
        self._thread.start()

    def admit(self, domain: str, admission: Admission) -> None:
        """Answer for the listeners of this domain."""
        self._authenticator.configure_curve_callback(domain, admission)

    def admit_no_more(self, domain: str) -> None:
        """The listeners of this domain are closed."""
        self._authenticator.credentials_providers.pop(domain, None)

    def stop(self) -> None:
        """End the thread. Blocks until it has ended."""
        self._stop.send(b"")
        self._thread.join()
        self._stop.close()

    def _run(self) -> None:
        asked = self._authenticator.zap_socket
        poller = zmq.Poller()
        poller.register(asked, zmq.POLLIN)
        poller.register(self._stopped, zmq.POLLIN)
        while self._stopped not in dict(poller.poll()):
            question = asked.recv_multipart()
            try:
                with contextlib.suppress(StopIteration):
                    self._authenticator.handle_zap_message(question).send(None)  # it waits for nothing
            except Exception:
                log.exception("a peer is refused, because it could not be looked up whether its key is trusted")
                asked.send_multipart([ZAP_VERSION, question[1], ZAP_ERROR, b"", b"", b""])
        self._stopped.close()
        self._authenticator.stop()


def new_pair() -> KeyPair:
    """A new key, drawn at random by libzmq."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode("ascii"), secret.decode("ascii"))


def secure_listener(socket: zmq.Socket[bytes], keys: KeyRing, domain: str) -> None:
    """Let only holders of trusted keys in; ``domain`` is that of an :class:`Admission`. While no thread answers for it,
    nobody is let in."""
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.own.secret.encode("ascii"))
    socket.setsockopt(zmq.ZAP_DOMAIN, domain.encode("ascii"))


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
