"""For programs that ask port 53 of the name servers in /etc/resolv.conf only: root can give a program others."""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

DNS_PORT = 53
RESOLV_CONF = Path("/etc/resolv.conf")
MOST_TRIES = 50
MOUNT_SECONDS = 10.0
NEEDS = f"needs root, who may bind port {DNS_PORT} on loopback and mount in a namespace of its own (unshare --mount)"
MOUNT_AND_RUN = f'mount --bind "$1" {RESOLV_CONF} && shift && exec "$@"'


def with_name_servers(command: Sequence[str], directory: Path, hosts: Sequence[str]) -> list[str]:
    """A command that asks these name servers only. The mount is seen by this command only, and ends with it."""
    file = directory / "resolv.conf"
    file.write_text("".join(f"nameserver {host}\n" for host in hosts))
    # unshare and the shell become the command: it is one process, with one id.
    alone = ["unshare", "--mount", "--propagation", "private"]
    return [*alone, "sh", "-c", MOUNT_AND_RUN, "sh", str(file), *command]


def free_name_servers(directory: Path, count: int) -> list[str]:
    """Hosts on loopback where port 53 is free. Where port or mount is refused, the test is skipped, also where CI=true:
    a container may refuse it to root, too."""
    refused = _refused_mount(directory)
    found: list[str] = []
    for _ in range(MOST_TRIES):
        if refused or len(found) == count:
            break
        host = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
        try:
            _bind(host)
        except OSError as error:
            refused = f"{host}: {error}" if isinstance(error, PermissionError) else ""
        else:
            found.append(host)
    if len(found) == count:
        return found
    pytest.skip(f"{NEEDS}: {refused or f'port {DNS_PORT} is bound at every address that was tried'}")


def _refused_mount(directory: Path) -> str:
    """Why a program cannot be given other name servers; empty: it can."""
    command = with_name_servers(["true"], directory, ["127.0.0.1"])
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=MOUNT_SECONDS, check=False)
    except FileNotFoundError as error:
        return str(error)
    return tried.stderr.strip() if tried.returncode else ""


def _bind(host: str) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as one:
            one.bind((host, DNS_PORT))
