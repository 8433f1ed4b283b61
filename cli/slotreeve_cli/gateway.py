"""``slotreeve gateway``: the registry for programs that do not use our client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from slotreeve_cli import gateway_token
from slotreeve_cli.options import ConfigOption, SetOption, read_configuration
from slotreeve_cli.run import NameOption, PortOffsetOption, UntilEofOption

if TYPE_CHECKING:
    from slotreeve_servers.settings import ServerConfiguration


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="A gateway: the registry over HTTP and other languages, for programs without our client.",
        no_args_is_help=True,
    )
    group.command(
        "run",
        epilog="Examples: slotreeve gateway run  |  slotreeve gateway run --set gateway.sessions=10.0.0.5:7730 "
        "--set face.use=rest,prometheus",
    )(run)
    gateway_token.add_to(group)
    app.add_typer(group, name="gateway")


def run(
    config: ConfigOption = None,
    name: NameOption = None,
    port_offset: PortOffsetOption = None,
    until_eof: UntilEofOption = False,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Run one gateway until SIGTERM or SIGINT. Any number of them may run; what callers register outlives each."""
    from slotreeve_client.tools import run_async

    configuration = read_configuration(config, settings, node__name=name, node__port_offset=port_offset)
    run_async(_run(configuration, until_eof))


async def _run(configuration: ServerConfiguration, until_eof: bool) -> None:
    import random
    import secrets

    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import MachineClock
    from slotreeve_gateway.server import GatewayServer
    from slotreeve_servers.launch import Launcher

    from slotreeve_cli.logs import configure_logging, follow_level
    from slotreeve_cli.run import health_pages, run_until_stopped

    catalogue, clock, rng = Catalogue.load(), MachineClock(), random.Random(secrets.randbits(64))
    launcher = Launcher(configuration, catalogue, clock, rng)
    node = launcher.gateway_node()
    configure_logging(configuration.settings.log, node.name)
    transport = launcher.transport(node.name)
    server = GatewayServer(configuration, catalogue, clock, rng, transport, node)
    follow_level(server.settings_in_force)
    pages = await health_pages(server, node, launcher.http_address(node.address), launcher.cluster)
    try:
        await run_until_stopped(server, node, until_eof)
    finally:
        await transport.close()
        if pages is not None:
            await pages.stop()
