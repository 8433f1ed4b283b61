"""Both transports hold the contract, with keys and without; ZeroMQ's on both event loops."""

from __future__ import annotations

from collections.abc import Coroutine

import uvloop
from slotreeve.clock import Clock
from slotreeve.keys import KeyPair, KeyRing, TrustedKeys, with_name
from slotreeve.ports import Hello, Transport
from slotreeve_conformance.transport import TransportContract
from slotreeve_conformance.transport_keys import TransportKeysContract
from slotreeve_conformance.transport_scene import CLIENT, SERVER
from slotreeve_conformance.virtual_time import run as run_in_virtual_time
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.transport import MemoryTransport
from slotreeve_transport_zmq.admission import new_pair
from slotreeve_transport_zmq.transport import ZmqTransport

PAIRS = {hello.node: new_pair() for hello in (SERVER, CLIENT)}
PATIENT_SECONDS = 600.0
"""A machine that stands still in the middle of a handshake must not fail a test: both ends are in one process."""
TRUSTED = TrustedKeys({hello.role: {hello.node: [PAIRS[hello.node].public]} for hello in (SERVER, CLIENT)})


class TestMemoryTransport(TransportContract):
    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return MemoryTransport(clock, "node", limits=limits)

    def run(self, main: Coroutine[None, None, None]) -> None:
        run_in_virtual_time(lambda _rng: main)


class TestMemoryTransportWithKeys(TestMemoryTransport):
    def build_as(self, hello: Hello, clock: Clock, limits: ChannelLimits) -> Transport:
        return MemoryTransport(clock, "node", limits=limits, keys=KeyRing(PAIRS[hello.node.partition("/")[0]], TRUSTED))

    def dialled(self, address: str) -> str:
        return with_name(SERVER.node, address)


class TestZmqTransport(TransportContract):
    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return ZmqTransport(clock, limits, handshake_seconds=PATIENT_SECONDS)


class TestZmqTransportOnUvloop(TestZmqTransport):
    def run(self, main: Coroutine[None, None, None]) -> None:
        uvloop.run(main)


class TestZmqTransportWithKeys(TestZmqTransport):
    def build_as(self, hello: Hello, clock: Clock, limits: ChannelLimits) -> Transport:
        keys = KeyRing(PAIRS[hello.node.partition("/")[0]], TRUSTED)
        return ZmqTransport(clock, limits, keys=keys, handshake_seconds=PATIENT_SECONDS)

    def dialled(self, address: str) -> str:
        return with_name(SERVER.node, address)


class TestKeysOfMemoryTransports(TransportKeysContract):
    def build_with_keys(self, clock: Clock, keys: KeyRing | None) -> Transport:
        return MemoryTransport(clock, "node", keys=keys)

    def new_pair(self) -> KeyPair:
        return new_pair()

    def run(self, main: Coroutine[None, None, None]) -> None:
        run_in_virtual_time(lambda _rng: main)


class TestKeysOfZmqTransports(TransportKeysContract):
    def build_with_keys(self, clock: Clock, keys: KeyRing | None) -> Transport:
        return ZmqTransport(clock, keys=keys, handshake_seconds=PATIENT_SECONDS)

    def new_pair(self) -> KeyPair:
        return new_pair()
