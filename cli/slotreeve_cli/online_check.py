"""``slotreeve config check --online``: what a meta server would find: free ports, its election's store, the others."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotreeve_servers.launch import Launcher
    from slotreeve_servers.settings import ServerConfiguration

CONNECT_SECONDS = 1.0

Row = dict[str, object]


async def try_online(configuration: ServerConfiguration, launcher: Launcher) -> list[Row]:
    """One row for each thing that was tried; ``result`` is ``good``, ``failed``, or ``later`` where a server that was
    not started yet would explain it."""
    from slotreeve.errors import ConfigError

    members = configuration.settings.cluster.meta
    node = configuration.settings.node.name
    if node not in members:
        raise ConfigError(
            f"node.name: {node!r} is no meta server of cluster.meta, and --online tries what a meta server needs: "
            f"leave it out, or say which one this machine is, e.g. --set node.name={next(iter(members))}"
        )
    requests, election = launcher.meta_listens_at(node)
    rows = [_port("requests", requests), _port("election", election)]
    if pages := launcher.http_address(requests):
        rows.append(_port("HTTP", pages))
    rows.append(await _store(launcher, node))
    return rows + [_other(name, address) for name, address in members.items() if name != node]


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _port(what: str, address: str) -> Row:
    host, port = _split(address)
    found: Row = {"what": f"port for {what}", "where": address, "result": "good", "found": "it is free"}
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return found
    except OSError as error:
        return {**found, "result": "failed", "found": f"cannot be listened at: {error.strerror}"}


async def _store(launcher: Launcher, node: str) -> Row:
    from slotreeve.errors import SlotreeveError
    from slotreeve_machines.storage import DirectoryStorage
    from slotreeve_servers.meta.swap.back_end import TriesOut

    election = launcher.election(node, DirectoryStorage.open)
    found: Row = {"what": "store of the election", "where": node, "result": "good"}
    if not isinstance(election, TriesOut):
        return {**found, "result": "later", "found": "this election offers no way to try it"}
    try:
        return {**found, "found": await election.try_out()}
    except SlotreeveError as error:
        return {**found, "result": "failed", "found": f"{error.code}: {error}"}


def _other(name: str, address: str) -> Row:
    found: Row = {"what": f"meta server {name}", "where": address, "result": "good", "found": "something listens there"}
    try:
        with socket.create_connection(_split(address), CONNECT_SECONDS):
            return found
    except OSError as error:
        return {**found, "result": "later", "found": f"does not answer: {error.strerror or error}"}
