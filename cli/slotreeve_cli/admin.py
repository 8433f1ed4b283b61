"""``slotreeve admin``: the operator's standing orders, which outrank heartbeats and survive restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import quote

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    ClusterOption,
    GatewayOption,
    MetaOption,
    Output,
    OutputOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_protocol.orders import Orders

NodeArgument = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of data or session servers.")]
ClientArgument = Annotated[list[str], typer.Argument(metavar="CLIENT...", help="Client ids or IP addresses.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Standing orders: banned servers, stopped pushes, frozen ends, hidden clients.")
    for name, command, example in (
        ("show", show, "show -o json"),
        ("ban", ban, "ban data-2 session-1"),
        ("unban", unban, "unban data-2"),
        ("stop-push", stop_push, "stop-push --except 10.0.0.7"),
        ("start-push", start_push, "start-push"),
        ("freeze", freeze, "freeze"),
        ("thaw", thaw, "thaw"),
        ("client-off", client_off, "client-off 10.0.0.9"),
        ("client-on", client_on, "client-on 10.0.0.9"),
    ):
        group.command(name, epilog=f"Example: slotreeve admin {example}")(command)
    app.add_typer(group, name="admin", no_args_is_help=True)


def show(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The orders in force."""
    _order(_Where(meta, cluster, gateway, token_file), output, None, [])


def ban(
    nodes: NodeArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Ban NODE: a data server hands over its slots, the clients of a session server move away."""
    where = _Where(meta, cluster, gateway, token_file)
    acts = _acts("PUT", "banned", nodes)
    _order(where, output, lambda intent: _changed(intent, banned=intent.banned | set(nodes)), acts)
    if not gateway:
        _name_strangers(meta, cluster, nodes)


def _name_strangers(metas: list[str], cluster: str, nodes: Sequence[str]) -> None:
    """Say which of the banned are no data or session servers at present: a slip of the pen bans nobody."""
    import asyncio

    from slotreeve.errors import SlotreeveError

    from slotreeve_cli.printing import as_text
    from slotreeve_cli.status import committed_view

    try:
        view = asyncio.run(committed_view(metas, cluster))
    except SlotreeveError as error:
        typer.echo(as_text(f"the ban is in force; whether there are such servers is not known: {error}"), err=True)
        return
    members = {node.name for node in [*view.data, *view.sessions]}
    for name in dict.fromkeys(nodes):
        if name not in members:
            typer.echo(
                as_text(f"{name} is no data or session server now; the ban counts once one of this name comes"),
                err=True,
            )


def unban(
    nodes: NodeArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """NODE may hold slots or clients again."""
    where = _Where(meta, cluster, gateway, token_file)
    acts = _acts("DELETE", "banned", nodes)
    _order(where, output, lambda intent: _changed(intent, banned=intent.banned - set(nodes)), acts)


def stop_push(
    except_for: Annotated[list[str], typer.Option("--except", help="Client id or IP address; repeatable.")] = [],  # noqa: B006
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Stop pushing to all clients except the given ones; publishing and lookups continue."""
    where = _Where(meta, cluster, gateway, token_file)
    act = _Act("PUT", "orders/push-stop", {"except": except_for})
    _order(where, output, lambda intent: _changed(intent, push_stopped=True, push_to=frozenset(except_for)), [act])


def start_push(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Push again, and bring every subscriber up to date."""
    where, act = _Where(meta, cluster, gateway, token_file), _Act("DELETE", "orders/push-stop")
    _order(where, output, lambda intent: _changed(intent, push_stopped=False, push_to=frozenset()), [act])


def freeze(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let no registration end unless its provider withdraws it: those of lost clients and servers stay, and leases that
    nobody renews. For incidents of the network."""
    where, act = _Where(meta, cluster, gateway, token_file), _Act("PUT", "orders/freeze")
    _order(where, output, lambda intent: _changed(intent, ends_frozen=True), [act])


def thaw(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let registrations end again as they do without an order; many at once are held back for a while."""
    where, act = _Where(meta, cluster, gateway, token_file), _Act("DELETE", "orders/freeze")
    _order(where, output, lambda intent: _changed(intent, ends_frozen=False), [act])


def client_off(
    clients: ClientArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Hide what CLIENT publishes from every subscriber; CLIENT itself still sees others."""
    where = _Where(meta, cluster, gateway, token_file)
    acts = _acts("PUT", "clients-off", clients)
    _order(where, output, lambda intent: _changed(intent, clients_off=intent.clients_off | set(clients)), acts)


def client_on(
    clients: ClientArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what CLIENT publishes again: CLIENT reconnects and publishes everything again."""
    where = _Where(meta, cluster, gateway, token_file)
    acts = _acts("DELETE", "clients-off", clients)
    _order(where, output, lambda intent: _changed(intent, clients_off=intent.clients_off - set(clients)), acts)


def _changed(intent: Orders, **changes: object) -> Orders:
    from msgspec.structs import replace

    return replace(intent, **changes)


class _Where(NamedTuple):
    """The servers, or the gateway that is asked instead if it is named."""

    metas: list[str]
    cluster: str
    gateway: str
    token_file: Path | None


class _Act(NamedTuple):
    """A request to the face ``admin`` of a gateway."""

    method: str
    path: str
    body: dict[str, object] | None = None


def _acts(method: str, order: str, names: Sequence[str]) -> list[_Act]:
    return [_Act(method, f"orders/{order}/{quote(name, safe='')}") for name in names]


def _order(where: _Where, output: Output, change: Callable[[Orders], Orders] | None, acts: Sequence[_Act]) -> None:
    """Change the orders, by ``change`` or by these ``acts`` of a gateway, and print those that are in force then."""
    from slotreeve_client.tools import run_async
    from slotreeve_protocol.orders import Orders

    from slotreeve_cli.printing import as_text, print_rows
    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(where.gateway, where.token_file)
    if through is None:
        intent = run_async(_carry_out(where.metas, where.cluster, change))
    else:
        for act in acts:
            for sentence in through.act(*act).sentences:
                typer.echo(as_text(sentence), err=True)
        intent = through.read("orders", Orders)
    row: dict[str, object] = {
        "banned": sorted(intent.banned),
        "push": "stopped" if intent.push_stopped else "on",
        "push_to": sorted(intent.push_to),
        "ends": "frozen" if intent.ends_frozen else "on",
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
