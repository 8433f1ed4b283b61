"""CURVE: whom a listener lets in, and what the sockets of both ends have to know (ZeroMQ's RFCs 26 and 27)."""

from __future__ import annotations

import zmq
from slotreeve.keys import KeyPair, KeyRing, Principal

USER_ID = "User-Id"
"""The property of a frame that holds the public key of its sender: the answer to ZAP's request puts it there."""


class Admission:
    """Answers for the listeners of one transport whether a peer may come in. ZAP's thread asks before libzmq reads any
    packet of that peer."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def callback(self, _domain: str, key: bytes) -> bool:
        """Whether the holder of this public key may come in. pyzmq's authenticator calls it."""
        return self._keys.trusted.holder(key.decode("ascii")) is not None


def new_pair() -> KeyPair:
    """A new key, drawn at random by libzmq."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode("ascii"), secret.decode("ascii"))


def secure_listener(socket: zmq.Socket[bytes], keys: KeyRing, domain: str) -> None:
    """Let only holders of trusted keys in; ``domain`` is that of an :class:`Admission`."""
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
