"""``slotreeve health``: the health page of the server that has this configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import ConfigOption, SetOption, read_configuration

if TYPE_CHECKING:
    from slotreeve_servers.settings import ServerConfiguration

ROLES = ("meta", "data", "session", "gateway")
NOT_WELL = 1
"""Exit code where the server answers that it is not well."""
OK = 200


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "health",
        epilog="Examples: slotreeve health -c /etc/slotreeve/slotreeve.toml  |  slotreeve health --ready --role data",
    )(health)


def health(
    config: ConfigOption = None,
    role: Annotated[
        str, typer.Option("--role", help="meta, data, session or gateway; by default that of the key.")
    ] = "",
    ready: Annotated[bool, typer.Option("--ready", help="Ask whether it can do its work.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.001, max=86_400, help="How long to wait for the answer.")
    ] = 5.0,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Ask the server of this configuration on this machine whether it lives, or with --ready whether it can do its
    work. For health checks of containers: give it the file and the variables of the server. Exit code 1 if not, 4 if
    it does not answer."""
    from slotreeve_client.tools import run_async

    address = run_async(place(read_configuration(config, settings), role))
    status, text = answer(address, "/readyz" if ready else "/livez", seconds)
    typer.echo(text.rstrip("\n"))
    if status != OK:
        raise typer.Exit(NOT_WELL)


async def place(configuration: ServerConfiguration, role: str = "") -> str:
    """Where this machine reaches the health pages of a server with this configuration. ``role``: empty for that of its
    key; not needed where ``http.listen`` is set.

    Raises:
        ConfigError: the server serves no pages, or it is not known of which role it is.
    """
    import random

    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import MachineClock
    from slotreeve.errors import ConfigError
    from slotreeve.model.nodes import Role
    from slotreeve_servers.launch import Launcher

    if role and role not in ROLES:
        raise ConfigError(f"--role {role}: no server has this role; expected one of {', '.join(ROLES)}")
    http = configuration.settings.http
    if not http.enabled:
        raise ConfigError("http.enabled is false: the server serves no health pages; expected true")
    if http.listen:
        return _from_here(http.listen)
    launcher = Launcher(configuration, Catalogue.load(), MachineClock(), random.Random())
    may_be = (Role(role),) if role else launcher.may_be
    if len(may_be) > 1:
        raise ConfigError("without a key (node.own_key) the role is not known; expected --role, or http.listen")
    is_gateway = may_be[0] is Role.GATEWAY
    listens = launcher.gateway_node().address if is_gateway else launcher.node(may_be[0])[1]
    return _from_here(launcher.http_address(listens))


def _from_here(address: str) -> str:
    """What listens on every address of this machine is reached on loopback."""
    host, _, port = address.rpartition(":")
    return f"{ {'0.0.0.0': '127.0.0.1', '[::]': '[::1]'}.get(host, host) }:{port}"  # noqa: S104 - it is not listened at


def answer(address: str, path: str, seconds: float) -> tuple[int, str]:
    """Status and text of a page.

    Raises:
        Unreachable: there is no answer within ``seconds``.
        ConfigError: that is no address.
    """
    from http.client import HTTPConnection, HTTPException

    from slotreeve.errors import ConfigError, Unreachable

    try:
        connection = HTTPConnection(address, timeout=seconds)
    except HTTPException as error:
        raise ConfigError(f"http.listen: {address} is no address: {error}; expected host:port") from None
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        raise Unreachable(f"{address}: no answer about {path}: {error}") from None
    finally:
        connection.close()
