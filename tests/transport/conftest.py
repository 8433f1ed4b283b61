"""What several modules here are played with."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slotreeve.clock import Clock
from slotreeve.ports import Transport
from slotreeve_conformance.transport_scene import TransportScene
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_zmq.transport import ZmqTransport

Start = Callable[..., "subprocess.Popen[str]"]


class ZmqScene(TransportScene):
    """Pairs of ZeroMQ transports."""

    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return ZmqTransport(clock, limits)


@pytest.fixture
def scene() -> TransportScene:
    return ZmqScene()


@pytest.fixture
def peer() -> Iterator[Start]:
    """Starts processes of ``zmq_peer.py``, which end with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name("zmq_peer.py")), *arguments]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


async def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints."""
    assert process.stdout is not None
    line = await asyncio.get_running_loop().run_in_executor(None, process.stdout.readline)
    return line.strip()
