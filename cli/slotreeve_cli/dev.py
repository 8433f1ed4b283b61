"""``slotreeve dev``: a whole registry in one process, to try things out against."""

from __future__ import annotations

import asyncio
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import ConfigOption, SetOption, read_configuration
from slotreeve_cli.run import Runnable

if TYPE_CHECKING:
    from slotreeve_console.http_end import HttpEnd
    from slotreeve_servers.settings import ServerConfiguration

READY_SECONDS = 20.0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "dev",
        epilog="Examples: slotreeve dev  |  slotreeve dev --port-offset 1000 --set cluster.slots=64. "
        "Then, in another terminal: slotreeve publish com.example.Greeter 10.0.0.1:8080",
    )(dev)


def dev(
    config: ConfigOption = None,
    port_offset: Annotated[int, typer.Option("--port-offset", help="Added to every port.")] = 0,
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
        configuration = read_configuration(
            config,
            ["log.level=warning", f"history.directory={history}", *settings],
            cluster__meta=meta,
            node__port_offset=port_offset,
            gateway__sessions=session,
        )
        run_async(_run(configuration, until_eof))


async def _run(configuration: ServerConfiguration, until_eof: bool) -> None:
    import random
    import secrets
    import time

    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import MachineClock
    from slotreeve.model.nodes import Role
    from slotreeve_client.administration import complete_view
    from slotreeve_gateway.server import GatewayServer
    from slotreeve_machines.storage import DirectoryStorage
    from slotreeve_protocol.meta_messages import Stopping
    from slotreeve_servers.launch import Launcher

    from slotreeve_cli.logs import configure_logging, follow_level
    from slotreeve_cli.run import health_pages, stop_requested

    began = time.monotonic()
    configure_logging(configuration.settings.log, "dev")
    catalogue, clock, rng = Catalogue.load(), MachineClock(), random.Random(secrets.randbits(64))
    launcher = Launcher(configuration, catalogue, clock, rng)
    stopping = stop_requested(until_eof)
    servers: list[Runnable] = []
    names = set()
    transports = []
    pages: list[HttpEnd] = []
    try:
        for role in (Role.META, Role.DATA, Role.SESSION):
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
        node = launcher.gateway_node()
        gateway = GatewayServer(configuration, catalogue, clock, rng, transports[0], node)
        follow_level(gateway.settings_in_force)
        if (
            end := await health_pages(gateway, node, launcher.http_address(node.address), launcher.cluster)
        ) is not None:
            pages.append(end)
        await gateway.start()
        servers.append(gateway)
        settings = configuration.settings
        await complete_view(
            transports[0], settings.cluster.name, [servers[0].address], names, settings.cluster.replicas, READY_SECONDS
        )
        took = time.monotonic() - began
        uses_console = any(entry.offer.name == "console" for entry, _ in configuration.check_faces(catalogue).values())
        console = f"\n  console in a browser: http://{gateway.address}/ui/" if uses_console else ""
        typer.echo(
            f"ready after {took:.2f} s: cluster {settings.cluster.name!r}, {settings.cluster.slots} slots\n"
            f"  clients connect to  {servers[2].address}\n"
            f"  meta server         {servers[0].address}\n"
            f"  programs without our client: http://{gateway.address}{console}"
        )
        _say_environment(servers[2].address, servers[0].address)
        await stopping.wait()
    finally:
        for running in reversed(servers):
            await running.stop(Stopping.NO)
        await asyncio.gather(*(transport.close() for transport in transports), *(end.stop() for end in pages))


def _say_environment(session: str, meta: str) -> None:
    from slotreeve_cli.options import DEFAULT_META, DEFAULT_SESSION

    if session != DEFAULT_SESSION or meta != DEFAULT_META:
        typer.echo(f"  for the other commands:  export SLOTREEVE_SESSION={session} SLOTREEVE_META={meta}")
