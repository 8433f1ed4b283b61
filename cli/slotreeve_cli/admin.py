"""``slotreeve admin``: the operator's standing orders, which outrank heartbeats and survive restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, ClusterOption, MetaOption, Output, OutputOption

if TYPE_CHECKING:
    from slotreeve_protocol.orders import Orders

NodeArgument = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of data or session servers.")]
ClientArgument = Annotated[list[str], typer.Argument(metavar="CLIENT...", help="Client ids or IP addresses.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Standing orders: banned servers, stopped pushes, hidden clients.")
    for name, command, example in (
        ("show", show, "show -o json"),
        ("ban", ban, "ban data-2 session-1"),
        ("unban", unban, "unban data-2"),
        ("stop-push", stop_push, "stop-push --except 10.0.0.7"),
        ("start-push", start_push, "start-push"),
        ("client-off", client_off, "client-off 10.0.0.9"),
        ("client-on", client_on, "client-on 10.0.0.9"),
    ):
        group.command(name, epilog=f"Example: slotreeve admin {example}")(command)
    app.add_typer(group, name="admin", no_args_is_help=True)


def show(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """The orders in force."""
    _order(meta, cluster, output, None)


def ban(
    nodes: NodeArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Ban NODE: a data server hands over its slots, the clients of a session server move away."""
    _order(meta, cluster, output, _banning(nodes))


def _banning(nodes: Sequence[str]) -> Callable[[Orders], Orders]:
    return lambda intent: _changed(intent, banned=intent.banned | set(nodes))


async def ban_nodes(addresses: list[str], cluster: str, nodes: Sequence[str]) -> None:
    """Order that these servers hold nothing. Raises as :func:`slotreeve_client.administration.change_config`."""
    await _carry_out(addresses, cluster, _banning(nodes))


def unban(
    nodes: NodeArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """NODE may hold slots or clients again."""
    _order(meta, cluster, output, lambda intent: _changed(intent, banned=intent.banned - set(nodes)))


def stop_push(
    except_for: Annotated[list[str], typer.Option("--except", help="Client id or IP address; repeatable.")] = [],  # noqa: B006
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Stop pushing to all clients except the given ones; publishing and lookups continue."""
    _order(meta, cluster, output, lambda intent: _changed(intent, push_stopped=True, push_to=frozenset(except_for)))


def start_push(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Push again, and bring every subscriber up to date."""
    _order(meta, cluster, output, lambda intent: _changed(intent, push_stopped=False, push_to=frozenset()))


def client_off(
    clients: ClientArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Hide what CLIENT publishes from every subscriber; CLIENT itself still sees others."""
    _order(meta, cluster, output, lambda intent: _changed(intent, clients_off=intent.clients_off | set(clients)))


def client_on(
    clients: ClientArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what CLIENT publishes again: CLIENT reconnects and publishes everything again."""
    _order(meta, cluster, output, lambda intent: _changed(intent, clients_off=intent.clients_off - set(clients)))


def _changed(intent: Orders, **changes: object) -> Orders:
    from msgspec.structs import replace

    return replace(intent, **changes)


def _order(addresses: list[str], cluster: str, output: Output, change: Callable[[Orders], Orders] | None) -> None:
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    intent = run_async(_carry_out(addresses, cluster, change))
    row: dict[str, object] = {
        "banned": sorted(intent.banned),
        "push": "stopped" if intent.push_stopped else "on",
        "push_to": sorted(intent.push_to),
        "clients_off": sorted(intent.clients_off),
    }
    print_rows([row], output)


async def _carry_out(addresses: list[str], cluster: str, change: Callable[[Orders], Orders] | None) -> Orders:
    from slotreeve_client.administration import change_orders
    from slotreeve_client.tools import asked

    _, orders = await asked(
        lambda transport: change_orders(transport, cluster, addresses, change or (lambda before: before))
    )
    return orders
