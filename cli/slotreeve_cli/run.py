"""``slotreeve meta|data|session run``: one server process."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from slotreeve_cli.options import ConfigOption, SetOption, read_configuration
from slotreeve_cli.service_manager import READY, STOPPING, tell

if TYPE_CHECKING:
    from slotreeve.errors import SlotreeveError
    from slotreeve.model.nodes import Node, Role
    from slotreeve_console.http_end import HttpEnd
    from slotreeve_protocol.meta_messages import Stopping
    from slotreeve_servers.node.readiness import Inspected
    from slotreeve_servers.settings import ServerConfiguration

NameOption = Annotated[str | None, typer.Option("--name", help="Name of this server (node.name).")]
UntilEofOption = Annotated[bool, typer.Option("--until-eof", help="Also stop when standard input ends.")]
PortOffsetOption = Annotated[int | None, typer.Option("--port-offset", help="Added to the role's default port.")]


class Runnable(Protocol):
    """A server process of any role."""

    @property
    def address(self) -> str:
        """Where it listens."""

    @property
    def given_up(self) -> asyncio.Future[SlotreeveError]:
        """Done once it cannot go on; holds the error for its operator."""

    async def start(self) -> None:
        """Begin. Raises SlotreeveError."""

    async def stop(self, how: Stopping = ...) -> None:
        """End in order."""


def add_to(app: typer.Typer) -> None:
    """Add the commands ``meta run``, ``data run`` and ``session run``."""
    for role, does in (
        ("meta", "takes part in the election; the leader keeps the slot table"),
        ("data", "holds slots"),
        ("session", "holds clients"),
    ):
        group = typer.Typer(help=f"The {role} server: {does}.", no_args_is_help=True)
        group.command(
            "run",
            help=f"Run one {role} server until SIGTERM or SIGINT (SIGHUP: for a restart). It leaves in order; "
            "a second signal ends it at once.",
            epilog=f"Examples: slotreeve {role} run -c cluster.toml --name {role}-1  |  "
            f"slotreeve {role} run --set node.zone=east",
        )(_command(role))
        app.add_typer(group, name=role)


def _command(role_name: str) -> Callable[..., None]:
    def run(
        config: ConfigOption = None,
        name: NameOption = None,
        port_offset: PortOffsetOption = None,
        until_eof: UntilEofOption = False,
        settings: SetOption = [],  # noqa: B006 - typer copies it
    ) -> None:
        from slotreeve.model.nodes import Role
        from slotreeve_client.tools import run_async

        configuration = read_configuration(config, settings, node__name=name, node__port_offset=port_offset)
        run_async(_run_server(configuration, Role(role_name), until_eof))

    return run


async def _run_server(configuration: ServerConfiguration, role: Role, until_eof: bool) -> None:
    """Run one server until a signal (or the end of standard input, so that servers started by a program do not outlive
    it)."""
    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import MachineClock
    from slotreeve.errors import OutOfMemory
    from slotreeve_machines.storage import DirectoryStorage
    from slotreeve_servers.launch import Launcher

    from slotreeve_cli.logs import configure_logging, follow_level

    asyncio.get_running_loop().set_exception_handler(partial(_end_without_memory, OutOfMemory.exit_code))
    rng = random.Random(secrets.randbits(64))
    launcher = Launcher(configuration, Catalogue.load(), MachineClock(), rng)
    node, _ = launcher.node(role)
    configure_logging(configuration.settings.log, node.name)
    environment = launcher.environment(role, keeps_history=True)
    server = launcher.server(environment, DirectoryStorage.open)
    follow_level(server.settings_in_force)
    pages = await health_pages(server, environment.node, launcher.http_address(environment.bind), launcher.cluster)
    try:
        await run_until_stopped(server, environment.node, until_eof)
    finally:
        await environment.transport.close()
        if pages is not None:
            await pages.stop()


def _end_without_memory(exit_code: int, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Nobody caught an exception. A server without memory ends at once, without a word to its peers, which replace it
    as they do after a crash: whatever it would do first needs memory, too."""
    if isinstance(context.get("exception"), MemoryError):
        os.write(2, b"slotreeve: out of memory; this server ends at once, and others take over what it held\n")
        os._exit(exit_code)
    loop.default_exception_handler(context)


async def run_until_stopped(server: Runnable, node: Node, until_eof: bool) -> None:
    """Start a server, tell on standard output where it listens, run until a signal, and stop it in order.

    Raises:
        SlotreeveError: it did not start, or it has given up.
    """
    from slotreeve.clock import MachineClock
    from slotreeve_protocol.meta_messages import Stopping
    from slotreeve_servers.node.garbage import GarbageCollection

    how = Stopping.FOR_GOOD

    def restart_requested() -> None:
        nonlocal how
        how = Stopping.FOR_A_RESTART

    stopping = stop_requested(until_eof, restart_requested)
    try:
        if not await _started(server, stopping):
            return
        GarbageCollection(MachineClock().now).begin()
        typer.echo(f"{node.role} {node.name} listens at {server.address} (process {os.getpid()})")
        tell(READY)
        server.given_up.add_done_callback(lambda _: stopping.set())
        await stopping.wait()
        if server.given_up.done():
            raise server.given_up.result()
    finally:
        tell(STOPPING)
        await server.stop(Stopping.NO if server.given_up.done() else how)


async def health_pages(server: Inspected, node: Node, address: str, cluster: str) -> HttpEnd | None:
    """Serve the server's health and metrics, where there is an address. They tell from the beginning to the end that a
    server starts or stops. Raises AddressInUse."""
    if not address:
        return None
    from slotreeve_console.health import HealthPages
    from slotreeve_console.http_end import HttpEnd

    pages = HttpEnd(HealthPages(server, node, cluster).application(), address)
    await pages.start()
    return pages


async def _started(server: Runnable, stopping: asyncio.Event) -> bool:
    """Start a server. False: it was asked to stop first; a start may wait for long, such as for a database."""
    starting, stopped = asyncio.ensure_future(server.start()), asyncio.ensure_future(stopping.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return False
    await starting
    return True


def stop_requested(until_eof: bool, restart_requested: Callable[[], None] | None = None) -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT (a second one ends the process at once), and, where ``until_eof``, when
    standard input ends. Where ``restart_requested`` is given, SIGHUP counts as well, and it is called before; but not
    where SIGHUP was ignored from the beginning, as by nohup. Call in a running event loop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if restart_requested is not None and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def signalled(number: signal.Signals) -> None:
        if number is signal.SIGHUP and restart_requested is not None:
            restart_requested()
        stopping.set()
        for each in numbers:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    def readable() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stopping.set()

    for number in numbers:
        loop.add_signal_handler(number, signalled, number)
    if until_eof:
        try:
            loop.add_reader(0, readable)
        except PermissionError:
            stopping.set()  # a plain file or /dev/null: nothing that could be waited for, its end is there already
    return stopping
