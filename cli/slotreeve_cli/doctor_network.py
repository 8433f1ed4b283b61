"""What ``slotreeve doctor`` asks other processes: who has a port, how late a clock is, which versions servers speak."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from slotreeve_cli.doctor_findings import ClockSeen, PortSeen, ServerSeen, SkewSeen
from slotreeve_cli.doctor_patient import Patient, in_thread
from slotreeve_cli.doctor_ports import holder_of

if TYPE_CHECKING:
    from slotreeve.model.slots import SlotFacts
    from slotreeve.ports import Transport
    from slotreeve_servers.launch import Launcher
    from slotreeve_servers.settings import ServerConfiguration

ANSWER_SECONDS = 2.0


async def look_at_ports(patient: Patient) -> list[PortSeen]:
    """The addresses of meta, data and session servers of each configuration, each once."""
    from slotreeve_client.tools import open_transport

    wanted: dict[str, tuple[str, str]] = {}
    for configuration, launcher in patient.launchers():
        for what, address in addresses_of(configuration, launcher):
            wanted.setdefault(address, (what, launcher.cluster))
    transport = open_transport()
    try:
        asked = (_port(transport, cluster, what, address) for address, (what, cluster) in wanted.items())
        return [*await asyncio.gather(*asked)]
    finally:
        await transport.close()


def addresses_of(configuration: ServerConfiguration, launcher: Launcher) -> Iterator[tuple[str, str]]:
    """Where servers of a configuration listen: the meta server that ``node.name`` names, or else any role."""
    from slotreeve.model.nodes import Role

    metas, name = configuration.settings.cluster.meta, configuration.settings.node.name
    for meta in ([name] if name in metas else metas) if Role.META in launcher.roles else ():
        requests, election = launcher.meta_listens_at(meta)
        yield f"the meta server {meta}", requests
        yield f"the election of {meta}", election
        if pages := launcher.http_address(requests):
            yield f"the HTTP pages of {meta}", pages
    for role in [] if name in metas else [role for role in (Role.DATA, Role.SESSION) if role in launcher.roles]:
        _, bind = launcher.node(role)
        yield f"the {role} server", bind
        if pages := launcher.http_address(bind):
            yield f"the HTTP pages of the {role} server", pages


async def _port(transport: Transport, cluster: str, what: str, address: str) -> PortSeen:
    from slotreeve.errors import Refused, TransportError
    from slotreeve_client.administration import hello_of

    failure = await in_thread(partial(_why_taken, address))
    if failure is None:
        return PortSeen(what, address)
    problem, number = failure.strerror or str(failure), failure.errno
    if number != errno.EADDRINUSE:
        return PortSeen(what, address, problem, is_elsewhere=number in (errno.EADDRNOTAVAIL, socket.EAI_NONAME))
    holder = await in_thread(partial(holder_of, _split(address)[1]))
    try:
        await hello_of(transport, cluster, address, ANSWER_SECONDS)
        is_ours = True
    except Refused as error:
        # The listener of an election refuses tools; a server of another cluster says so.
        is_ours = "is cluster" not in str(error)
    except TransportError:
        is_ours = "slotreeve" in holder
    return PortSeen(what, address, problem, holder=holder, is_ours=is_ours)


def _why_taken(address: str) -> OSError | None:
    """Why nobody else can listen there; None if somebody can. Blocks while a name is looked up."""
    host, port = _split(address)
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return None
    except OSError as error:
        return error


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


async def look_at_clock(patient: Patient) -> ClockSeen:
    """The monotonic clock, and the wall clocks of meta leaders that answer."""
    from slotreeve.errors import SlotreeveError
    from slotreeve.ports.transport import dialled
    from slotreeve_client.administration import ask_any
    from slotreeve_client.tools import open_transport
    from slotreeve_protocol.meta_messages import GetMembers, Members

    counts_suspend = hasattr(time, "CLOCK_BOOTTIME") or sys.platform != "linux"
    skews: dict[str, SkewSeen] = {}
    transport = open_transport()

    async def ask(cluster: str, name: str, address: str) -> None:
        began = time.time()
        try:
            place = dialled(transport, name, address)
            reply = await ask_any(transport, cluster, [place], GetMembers(), ANSWER_SECONDS)
        except SlotreeveError:
            return
        if isinstance(reply, Members):
            took = time.time() - began
            skews[name] = SkewSeen(name, reply.at_ms / 1000 - began - took / 2, took / 2)

    try:
        await asyncio.gather(*(ask(*each) for each in _metas(patient)))
    finally:
        await transport.close()
    return ClockSeen(counts_suspend, [skews[name] for name in sorted(skews)])


def _metas(patient: Patient) -> list[tuple[str, str, str]]:
    """Cluster, name and address of each meta server of the good configurations, each once."""
    settings = [case.configuration.settings for case in patient.good if case.configuration is not None]
    found = {address: (each.cluster.name, name) for each in settings for name, address in each.cluster.meta.items()}
    return [(cluster, name, address) for address, (cluster, name) in found.items()]


async def look_at_servers(patient: Patient) -> list[ServerSeen]:
    """Every meta server that a configuration names, and the data and session servers that they name."""
    from slotreeve.errors import SlotreeveError
    from slotreeve.model.slots import SlotFacts
    from slotreeve.ports.transport import dialled
    from slotreeve_client.administration import cluster_view
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    seen: dict[str, ServerSeen] = {}
    try:
        for case in patient.good:
            assert case.configuration is not None
            settings = case.configuration.settings
            cluster, metas = settings.cluster.name, settings.cluster.meta
            facts = SlotFacts(settings.cluster.slots, settings.cluster.replicas, settings.slot_function.use)
            asked = [
                _server(transport, cluster, facts, name, dialled(transport, name, address))
                for name, address in metas.items()
            ]
            found = await asyncio.gather(*asked)
            if any(not server.problem for server in found):
                try:
                    view = await cluster_view(transport, cluster, [s.address for s in found if not s.problem])
                except SlotreeveError:
                    nodes = []
                else:
                    nodes = [*view.data, *view.sessions]
                found += await asyncio.gather(
                    *(_server(transport, cluster, facts, node.name, node.address) for node in nodes)
                )
            seen |= {server.address: server for server in found}
    finally:
        await transport.close()
    return [*seen.values()]


async def _server(transport: Transport, cluster: str, facts: SlotFacts, name: str, address: str) -> ServerSeen:
    from slotreeve.errors import Refused, SlotreeveError
    from slotreeve_client.administration import hello_of

    try:
        hello = await hello_of(transport, cluster, address, ANSWER_SECONDS)
    except SlotreeveError as error:
        reason = str(error).removeprefix(f"{address}: ")
        return ServerSeen(name, address, reason, isinstance(error, Refused))
    versions = (hello.oldest_version, hello.newest_version)
    differing = (
        []
        if hello.facts is None
        else [
            f"{field} is {getattr(hello.facts, field)} there and {getattr(facts, field)} in the configuration"
            for field in ("slots", "replicas", "function")
            if getattr(hello.facts, field) != getattr(facts, field)
        ]
    )
    return ServerSeen(name, address, versions=versions, differs=", ".join(differing))
