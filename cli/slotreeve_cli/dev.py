"""``slotreeve dev``: a whole registry in one process, to try things out against."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import ConfigOption, SetOption, read_configuration
from slotreeve_cli.run import Runnable

if TYPE_CHECKING:
    from slotreeve_console.http_end import HttpEnd
    from slotreeve_servers.settings import ServerConfiguration

READY_SECONDS = 20.0
NAMES = {"meta": "meta-1", "data": "data-1", "session": "session-1", "gateway": "gateway-1"}
"""The servers by role, where they have keys; in the order in which they start."""
ASKERS = {"tool": "operator", "client": "program"}
"""Who else has a key."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "dev",
        epilog="Examples: slotreeve dev  |  slotreeve dev --port-offset 1000 --set cluster.slots=64  |  slotreeve dev "
        "--keys keys. Then, in another terminal: slotreeve publish com.example.Greeter 10.0.0.1:8080",
    )(dev)


def dev(
    config: ConfigOption = None,
    port_offset: Annotated[
        int, typer.Option("--port-offset", help="Added to every port but that of DNS (face.dns.port).")
    ] = 0,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", help="Let each server have a key, in this directory; only who has one is let in."),
    ] = None,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="Also stop when standard input ends.")] = False,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Run meta, data, session server and gateway in this process, on loopback. It ends with Ctrl-C, and keeps
    nothing on the disk then."""
    from slotreeve.model.nodes import Role
    from slotreeve_client.tools import run_async
    from slotreeve_servers.launch import ROLE_PORTS

    meta = {"meta-1": f"127.0.0.1:{ROLE_PORTS[Role.META] + port_offset}"}
    session = f"127.0.0.1:{ROLE_PORTS[Role.SESSION] + port_offset}"
    with TemporaryDirectory(prefix="slotreeve-") as history:
        own = _keys_in(keys) if keys is not None else {}
        configurations = {
            role: read_configuration(
                config,
                ["log.level=warning", f"history.directory={history}", *settings],
                cluster__meta=meta,
                node__port_offset=port_offset,
                gateway__sessions=f"{NAMES[Role.SESSION]}@{session}" if own else session,
                node__own_key=own.get(role),
            )
            for role in NAMES
        }
        run_async(_run(configurations, own.get(Role.TOOL, ""), until_eof))


def _keys_in(directory: Path) -> dict[str, str]:
    """The files of the keys of each server, of a tool and of a client; they are made where they are missing. Raises
    ConfigError."""
    from slotreeve.key_files import issue
    from slotreeve.model.nodes import Role
    from slotreeve_client.tools import new_key_pair

    files = {role: directory / f"{name}.toml" for role, name in (NAMES | ASKERS).items()}
    for role, file in files.items():
        if not file.exists():
            issue(directory, file.stem, Role(role), new_key_pair())
    return {role: str(file) for role, file in files.items()}


async def _run(configurations: Mapping[str, ServerConfiguration], tool_key: str, until_eof: bool) -> None:
    import random
    import secrets
    import time

    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import MachineClock
    from slotreeve.model.nodes import Role
    from slotreeve.ports.transport import dialled
    from slotreeve_client.administration import complete_view
    from slotreeve_client.tools import open_transport
    from slotreeve_gateway.server import GatewayServer
    from slotreeve_machines.storage import DirectoryStorage
    from slotreeve_protocol.meta_messages import Stopping
    from slotreeve_servers.launch import Launcher

    from slotreeve_cli.logs import configure_logging, follow_level
    from slotreeve_cli.run import health_pages, stop_requested

    began = time.monotonic()
    configuration = configurations[Role.GATEWAY]
    configure_logging(configuration.settings.log, "dev")
    catalogue, clock, rng = Catalogue.load(), MachineClock(), random.Random(secrets.randbits(64))
    launchers = {role: Launcher(each, catalogue, clock, rng) for role, each in configurations.items()}
    stopping = stop_requested(until_eof)
    servers: list[Runnable] = []
    names = set()
    transports = []
    pages: list[HttpEnd] = []
    try:
        for role in (Role.META, Role.DATA, Role.SESSION):
            launcher = launchers[role]
            environment = launcher.environment(role, keeps_history=True)
            transports.append(environment.transport)
            if role is not Role.META:
                names.add(environment.node.name)
            server = launcher.server(environment, DirectoryStorage.open)
            follow_level(server.settings_in_force)
            servers.append(server)
            if (
                end := await health_pages(
                    server, environment.node, launcher.http_address(environment.bind), launcher.cluster
                )
            ) is not None:
                pages.append(end)
            await server.start()
        settings, dialled_as = configuration.settings, transports[-1]
        addresses = dict(zip(NAMES, [server.address for server in servers], strict=False))  # the gateway comes last
        places = {role: dialled(dialled_as, NAMES[role], address) for role, address in addresses.items()}
        transports.append(open_transport(own_key=tool_key))
        await complete_view(
            transports[-1], settings.cluster.name, [places[Role.META]], names, settings.cluster.replicas, READY_SECONDS
        )
        launcher = launchers[Role.GATEWAY]
        node = launcher.gateway_node()
        transports.append(launcher.transport(node.name))
        gateway = GatewayServer(configuration, catalogue, clock, rng, transports[-1], node)
        follow_level(gateway.settings_in_force)
        if (
            end := await health_pages(gateway, node, launcher.http_address(node.address), launcher.cluster)
        ) is not None:
            pages.append(end)
        await gateway.start()
        servers.append(gateway)
        took = time.monotonic() - began
        uses_console = any(entry.offer.name == "console" for entry, _ in configuration.check_faces(catalogue).values())
        console = f"\n  console in a browser: http://{gateway.address}/ui/" if uses_console else ""
        typer.echo(
            f"ready after {took:.2f} s: cluster {settings.cluster.name!r}, {settings.cluster.slots} slots\n"
            f"  clients connect to  {places[Role.SESSION]}\n"
            f"  meta server         {places[Role.META]}\n"
            f"  programs without our client: http://{gateway.address}{console}"
        )
        _say_environment(places[Role.SESSION], places[Role.META], tool_key)
        await stopping.wait()
    finally:
        for running in reversed(servers):
            await running.stop(Stopping.NO)
        await asyncio.gather(*(transport.close() for transport in transports), *(end.stop() for end in pages))


def _say_environment(session: str, meta: str, tool_key: str) -> None:
    from slotreeve_cli.options import DEFAULT_META, DEFAULT_SESSION

    if session != DEFAULT_SESSION or meta != DEFAULT_META:
        key = f" SLOTREEVE_OWN_KEY={tool_key}" if tool_key else ""
        typer.echo(f"  for the other commands:  export SLOTREEVE_SESSION={session} SLOTREEVE_META={meta}{key}")
