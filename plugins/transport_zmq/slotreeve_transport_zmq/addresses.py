"""Addresses: ``host:port`` and libzmq's endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import zmq
from slotreeve.keys import split_name

_lookers: ThreadPoolExecutor
"""Eight look-ups at a time. The loop's own threads are for others: a look-up that nobody answers holds one for half a
minute, and a transport needs one to close."""


def _begin_look_ups() -> None:
    """A process that was forked has the pool of its parent, but none of its threads."""
    global _lookers
    _lookers = ThreadPoolExecutor(8, "look-up")


_begin_look_ups()
os.register_at_fork(after_in_child=_begin_look_ups)


def split_address(address: str) -> tuple[str, int]:
    """Host (without brackets) and port.

    Raises:
        ValueError: ``address`` is not ``host:port`` or ``[ipv6]:port`` with a port of 0..65535.
    """
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{address!r}: an IPv6 address must be in brackets, as in [::1]:7710")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port with a port of 0..65535")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """The reverse of :func:`split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def endpoint_of(address: str) -> str:
    """The ``tcp://`` endpoint of an address, with or without a name before it. It resolves a host name itself, because
    libzmq would block an I/O thread.

    Raises:
        ValueError: as :func:`split_address`.
        OSError: the host name cannot be resolved.
    """
    host, port = split_address(split_name(address)[1])
    if not _is_ip_address(host):
        try:
            look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            found = await asyncio.get_running_loop().run_in_executor(_lookers, look_up)
        except RuntimeError as error:  # it asks in a thread, and this process may start none now
            raise OSError(f"{host} was not looked up: {error}") from error
        # IPv4 first: "localhost" has both addresses, and a listener at "localhost" uses IPv4.
        found.sort(key=lambda entry: entry[0] != socket.AF_INET)
        host = str(found[0][4][0])
    return f"tcp://{join_address(host, port)}"


async def is_refused(endpoint: str, timeout_seconds: float) -> bool:
    """Whether the host of an endpoint answers that nobody listens there. False also where there is no way to it, which
    libzmq reports in the same words."""
    host, port = split_address(endpoint.removeprefix("tcp://"))
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
            attempt.setblocking(False)
            async with asyncio.timeout(timeout_seconds):
                await asyncio.get_running_loop().sock_connect(attempt, (host, port))
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    return False


@functools.lru_cache(maxsize=256)
def _is_ip_address(host: str) -> bool:
    """Remembered, because clients that lose a server connect to the same few others."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def peer_address(fd: int) -> str | None:
    """The address of the peer of a TCP connection; None if the descriptor is not one, or not any more."""
    with _borrowed(fd) as stream:
        return _remote_name(stream)


def hang_up(fd: int, address: str) -> None:
    """End the TCP connection on a descriptor of libzmq's if its peer still is ``address``.

    A ROUTER socket has no call that drops a peer. libzmq sees the end of the stream and cleans up. Where it ends by
    itself just between the two calls, and another connection gets the descriptor, that one ends, and comes back.
    """
    with _borrowed(fd) as stream:
        if stream is not None and _remote_name(stream) == address:
            with contextlib.suppress(OSError):  # it has ended by itself
                stream.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _borrowed(fd: int) -> Iterator[socket.socket | None]:
    """A descriptor of libzmq's as a socket; None if it is none, or not any more. It takes no other descriptor: where
    peers have used up all of them, those that are silent must be found and disconnected nevertheless."""
    try:
        stream = socket.socket(fileno=fd)
    except (OSError, ValueError):
        yield None
        return
    try:
        yield stream
    finally:
        stream.detach()


def _remote_name(stream: socket.socket | None) -> str | None:
    if stream is None:
        return None
    try:
        name = stream.getpeername()
    except OSError:
        return None
    return join_address(name[0], name[1]) if isinstance(name, tuple) else None


def descriptor_of(frame: zmq.Frame) -> int | None:
    """The descriptor that a frame came in on.

    None if its peer speaks ZMTP 1.0 or 2.0: libzmq raises EINVAL then. Such a peer is disconnected together with all
    others that send no hello.
    """
    try:
        return int(frame.get(zmq.SRCFD))
    except zmq.ZMQError:
        return None
