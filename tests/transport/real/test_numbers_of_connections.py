"""Which numbers libzmq gives to the connections of a listener."""

from __future__ import annotations

import subprocess
import sys

FIRST_NUMBER = """
import asyncio, zmq
from slotreeve.clock import LoopClock
from slotreeve_conformance.transport_scene import CLIENT, RecordingHandler
from slotreeve_transport_zmq.transport import ZmqTransport

async def main():
    transport = ZmqTransport(LoopClock())
    listener = await transport.listen("127.0.0.1:0", CLIENT, RecordingHandler())
    context = zmq.Context()
    next_listener, dialler = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    port = next_listener.bind_to_random_port("tcp://127.0.0.1")
    dialler.connect(f"tcp://127.0.0.1:{port}")
    dialler.send(b"hello")
    print(next_listener.recv_multipart()[0].hex())
    context.destroy(0)
    await transport.close()

asyncio.run(main())
"""


def test_no_two_processes_number_their_connections_from_the_same_one_on() -> None:
    """A peer could take the number of a connection to come, and libzmq ends a process where a number is taken."""
    command = [sys.executable, "-c", FIRST_NUMBER]
    found = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]
    assert [number[:2] for number in found] == ["00"] * 3, "libzmq has drawn them"
    assert len(set(found)) == 3
