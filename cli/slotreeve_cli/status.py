"""``slotreeve status``, ``slots``, ``leader``, ``members``, ``counters``: what the servers report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    NOT_FOUND,
    ClusterOption,
    MetaOption,
    Output,
    OutputOption,
    Rows,
    RowsOption,
)

if TYPE_CHECKING:
    from slotreeve_client.condition import ClusterCondition
    from slotreeve_protocol.meta_messages import LeaderIs, View

ONLY_WIDE = ("zone", "weight", "process_id")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("status", epilog="Examples: slotreeve status  |  slotreeve status -o json")(status)
    app.command("slots", epilog="Example: slotreeve slots -o json")(slots)
    app.command("leader", epilog="Example: slotreeve leader -o json")(leader)
    app.command("members", epilog="Example: slotreeve members")(members)
    app.command("counters", epilog="Example: slotreeve counters -o json")(counters)


def slots(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """The slot table: the leader and the followers of each slot. As JSON also epoch and term, and what slotreeve plan
    needs to play with it: the data servers and the number of copies."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_json, print_rows

    view = run_async(committed_view(meta, cluster))
    if output is Rows.JSON:
        print_json(table_document(view))
    else:
        print_rows(
            _slot_rows(view), output, title=f"slot table, epoch {view.table.epoch}", empty="no slot is assigned yet"
        )


def _slot_rows(view: View) -> list[dict[str, object]]:
    return [
        {"slot": s.id, "leader": s.leader, "leader_epoch": s.leader_epoch, "followers": list(s.followers)}
        for s in view.table.slots
    ]


def table_document(view: View) -> dict[str, object]:
    """The slot table with what a dry run of a plugin needs: the data servers, and the number of copies."""
    servers = [{"name": node.name, "zone": node.zone, "weight": node.weight} for node in view.data]
    head = {"epoch": view.table.epoch, "term": view.term, "revision": view.revision}
    replicas = view.facts.replicas if view.facts else None
    return head | {"servers": servers, "replicas": replicas, "slots": _slot_rows(view)}


def leader(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """The meta leader and its term. Exit code 3 while there is none."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    known = run_async(_leader(meta, cluster))
    print_rows([{"leader": known.leader, "address": known.address, "term": known.term}], output)
    if known.leader is None:
        raise typer.Exit(NOT_FOUND)


def members(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """Every server: its state, when it was heard last, how many slots it leads and follows, how many clients it has."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    found = run_async(_condition(meta, cluster))
    print_rows(_server_rows(found), output, empty="no member has joined yet", only_wide=ONLY_WIDE)


def status(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Whether the cluster is well: what is not as it should be, in sentences, and every server with its state. Exit
    code 1 where something is not."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_json, print_rows

    found = run_async(_condition(meta, cluster))
    problems, rows = found.problems(), _server_rows(found)
    leader, view = found.leader, found.view
    facts: dict[str, object] = {
        "leader": None if leader is None else leader.name,
        "term": None if leader is None or leader.known is None else leader.known.term,
        "election": None if leader is None or leader.known is None else leader.known.use,
        "slots": 0 if view is None else len(view.table.slots),
        "table_epoch": None if view is None else view.table.epoch,
        "is_planning": found.members is not None and found.members.is_planning,
    }
    if output is Output.JSON:
        print_json({"well": not problems, **facts, "problems": problems, "news": found.news(), "servers": rows})
    else:
        typer.echo("The cluster is well." if not problems else "\n".join(problems))
        led = f"{facts['leader']} leads in term {facts['term']} ({facts['election']})" if leader else "nobody leads"
        planning = ", the next table is being made" if facts["is_planning"] else ""
        typer.echo(f"\n{led}; {facts['slots']} slots, table {facts['table_epoch']}{planning}\n")
        print_rows(rows, Rows.TABLE, only_wide=ONLY_WIDE)
        if news := found.news():
            typer.echo("\n" + "\n".join(news))
    if problems:
        raise typer.Exit(1)


def _server_rows(found: ClusterCondition) -> list[dict[str, object]]:
    """Meta servers, then data and session servers, each with the same columns."""
    nothing = dict.fromkeys(("zone", "weight", "leads", "follows", "clients", "silent_s", "process_id"))
    rows: list[dict[str, object]] = [
        {"name": meta.name, "role": "meta", "state": meta.state, "address": meta.address, **nothing}
        for meta in found.metas
    ]
    if found.view is None:
        return rows
    heard = {} if found.members is None else {each.node.name: each.heard_seconds for each in found.members.members}
    states = found.states()
    return rows + [
        {
            "name": node.name,
            "role": str(node.role),
            "state": states.get(node.name, "joins"),
            "address": node.address,
            "zone": node.zone,
            "weight": node.weight,
            "leads": sum(slot.leader == node.name for slot in found.view.table.slots),
            "follows": sum(node.name in slot.followers for slot in found.view.table.slots),
            "clients": found.held.get(node.name, {}).get("clients"),
            "silent_s": None if node.name not in heard else round(heard[node.name], 1),
            "process_id": node.process_id,
        }
        for node in [*found.view.data, *found.view.sessions]
    ]


async def _condition(addresses: list[str], cluster: str) -> ClusterCondition:
    from slotreeve_client.condition import cluster_condition
    from slotreeve_client.tools import asked

    return await asked(lambda transport: cluster_condition(transport, cluster, addresses))


async def committed_view(addresses: list[str], cluster: str) -> View:
    """The view of the cluster, from one of these meta servers or the leader that it names."""
    from slotreeve_client.administration import cluster_view
    from slotreeve_client.tools import asked

    return await asked(lambda transport: cluster_view(transport, cluster, addresses))


async def _leader(addresses: list[str], cluster: str) -> LeaderIs:
    from slotreeve_client.administration import cluster_leader
    from slotreeve_client.tools import asked

    return await asked(lambda transport: cluster_leader(transport, cluster, addresses))


def counters(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """What every server counted since its start and holds now; repairs, gaps and failures are 0 in a quiet cluster."""
    from slotreeve_client.tools import run_async

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
