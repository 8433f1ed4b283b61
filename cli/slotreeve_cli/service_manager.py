"""What a server tells the service manager that has started it (systemd's ``sd_notify``, by its documented protocol)."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger("slotreeve.run")

SOCKET = "NOTIFY_SOCKET"
READY, STOPPING = "READY=1", "STOPPING=1"


def tell(state: str) -> None:
    """Tell the service manager, if there is one, that the server is ready, or that it stops."""
    place = os.environ.get(SOCKET)
    if not place:
        return
    address = f"\0{place[1:]}" if place.startswith("@") else place
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
            told.connect(address)
            told.sendall(state.encode())
    except OSError as error:
        log.warning("%s: the service manager cannot be told %s: %s", SOCKET, state, error)
