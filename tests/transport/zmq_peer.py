"""A process at the other end, for tests that kill or stop one: ``zmq_peer.py listen``, ``zmq_peer.py dial ADDRESS``, or
``zmq_peer.py session SECONDS``: a session server whose Python is busy for so long after it has told its address.

Tells on standard output its address, ``opened``, and at the end of a connection how many numbered messages had come
in order. Ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import time

from slotreeve.clock import LoopClock
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_protocol.client_messages import Sessions
from slotreeve_protocol.general_messages import Opaque
from slotreeve_transport_zmq.transport import ZmqTransport

HELLO = Hello("test", "peer", Role.CLIENT, "peer-process")


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Counting:
    """Counts messages as long as their numbers follow each other."""

    def __init__(self) -> None:
        self.expected = 0

    def opened(self, _connection: Connection) -> None:
        tell("opened")

    def received(self, _connection: Connection, message: Message, _request_id: int | None) -> None:
        if isinstance(message, Opaque) and message.topic == str(self.expected):
            self.expected += 1

    def closed(self, _connection: Connection, _reason: str) -> None:
        tell(str(self.expected))


class Admitting(Counting):
    """Admits each client."""

    def opened(self, connection: Connection) -> None:
        super().opened(connection)
        connection.send(Sessions([]))


async def main(arguments: list[str]) -> None:
    transport = ZmqTransport(LoopClock())
    if arguments[0] == "listen":
        tell((await transport.listen("127.0.0.1:0", HELLO, Counting())).address)
    elif arguments[0] == "session":
        hello = Hello("slotreeve", "peer", Role.SESSION, "peer-process")
        tell((await transport.listen("127.0.0.1:0", hello, Admitting())).address)
        time.sleep(float(arguments[1]))  # noqa: ASYNC251 - the event loop must stand still
    else:
        await transport.connect(arguments[1], HELLO, Counting(), 10.0)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await transport.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
