"""``slotreeve slots``, ``leader``, ``members``, ``counters``: what the servers report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from slotreeve_client.tools import run_async

from slotreeve_cli.options import DEFAULT_META, NOT_FOUND, ClusterOption, MetaOption, Output, OutputOption

if TYPE_CHECKING:
    from slotreeve_protocol.meta_messages import LeaderIs, View


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("slots", epilog="Example: slotreeve slots -o json")(slots)
    app.command("leader", epilog="Example: slotreeve leader -o json")(leader)
    app.command("members", epilog="Example: slotreeve members")(members)
    app.command("counters", epilog="Example: slotreeve counters -o json")(counters)


def slots(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """The slot table: the leader and the followers of each slot. As JSON also epoch and term, and what slotreeve plan
    needs to play with it: the data servers and the number of copies."""
    from slotreeve_cli.printing import print_json, print_rows

    view = run_async(_view(meta, cluster))
    rows: list[dict[str, object]] = [
        {"slot": s.id, "leader": s.leader, "leader_epoch": s.leader_epoch, "followers": list(s.followers)}
        for s in view.table.slots
    ]
    if output is Output.JSON:
        servers = [{"name": node.name, "zone": node.zone, "weight": node.weight} for node in view.data]
        head = {"epoch": view.table.epoch, "term": view.term, "revision": view.revision}
        print_json(head | {"servers": servers, "replicas": view.facts.replicas if view.facts else None, "slots": rows})
    else:
        print_rows(rows, output, title=f"slot table, epoch {view.table.epoch}", empty="no slot is assigned yet")


def leader(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """The meta leader and its term. Exit code 3 while there is none."""
    from slotreeve_cli.printing import print_rows

    known = run_async(_leader(meta, cluster))
    print_rows([{"leader": known.leader, "address": known.address, "term": known.term}], output)
    if known.leader is None:
        raise typer.Exit(NOT_FOUND)


def members(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """The data and session servers, with how many slots each leads and follows."""
    from slotreeve_cli.printing import print_rows

    view = run_async(_view(meta, cluster))
    rows: list[dict[str, object]] = [
        {
            "name": node.name,
            "role": str(node.role),
            "address": node.address,
            "zone": node.zone,
            "weight": node.weight,
            "leads": sum(slot.leader == node.name for slot in view.table.slots),
            "follows": sum(node.name in slot.followers for slot in view.table.slots),
            "process_id": node.process_id,
        }
        for node in [*view.data, *view.sessions]
    ]
    print_rows(rows, output, empty="no member has joined yet")


async def _view(addresses: list[str], cluster: str) -> View:
    from slotreeve_client.administration import cluster_view
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        return await cluster_view(transport, cluster, addresses)
    finally:
        await transport.close()


async def _leader(addresses: list[str], cluster: str) -> LeaderIs:
    from slotreeve_client.administration import cluster_leader
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        return await cluster_leader(transport, cluster, addresses)
    finally:
        await transport.close()


def counters(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """What every server counted since its start and holds now; repairs, gaps and failures are 0 in a quiet cluster."""
    from slotreeve_cli.printing import print_rows

    rows: list[dict[str, object]] = []
    for server, values in run_async(_counters(meta, cluster)).items():
        rows += [{"server": server, "counter": name, "value": value} for name, value in values.items()]
    print_rows(rows, output)


async def _counters(addresses: list[str], cluster: str) -> dict[str, dict[str, int]]:
    from slotreeve_client.administration import cluster_view
    from slotreeve_client.administration import counters as ask_counters
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        view = await cluster_view(transport, cluster, addresses)
        servers = [(address, address) for address in addresses]
        servers += [(node.name, node.address) for node in [*view.data, *view.sessions]]
        return {name: await ask_counters(transport, cluster, address) for name, address in servers}
    finally:
        await transport.close()
