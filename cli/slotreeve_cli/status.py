"""``slotreeve status``, ``slots``, ``leader``, ``members``, ``counters``: what the servers report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    NOT_FOUND,
    ClusterOption,
    GatewayOption,
    MetaOption,
    Output,
    OutputOption,
    Rows,
    RowsOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_client.reports import ClusterReport
    from slotreeve_client.slot_reads import AllSlotReads
    from slotreeve_protocol.delay_messages import SlotReads
    from slotreeve_protocol.meta_messages import LeaderIs, View

    from slotreeve_cli.through_gateway import ThroughGateway

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
    """The slot table: the leader and the followers of each slot, and for how many seconds it could not be read: now, in
    the last hour, and in the last day. As JSON also epoch and term, and what slotreeve plan needs to play with it:
    the data servers and the number of copies."""
    from msgspec.structs import asdict
    from slotreeve_client.reports import table_report
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_json, print_rows

    view, reads = run_async(_view_and_reads(meta, cluster))
    table = table_report(view)
    rows: list[dict[str, object]] = [
        {**asdict(slot), **_unreadable(reads.slots.get(slot.slot))} for slot in table.slots
    ]
    if output is Rows.JSON:
        print_json({**asdict(table), "slots": rows})
    else:
        print_rows(rows, output, title=f"slot table, epoch {table.epoch}", empty="no slot is assigned yet")
    for server, why in reads.silent.items():
        typer.echo(f"{server} does not tell when its slots could not be read: {why}", err=True)


async def _view_and_reads(addresses: list[str], cluster: str) -> tuple[View, AllSlotReads]:
    from slotreeve_client.slot_reads import slot_reads
    from slotreeve_client.tools import asked

    view = await committed_view(addresses, cluster)
    return view, await asked(lambda transport: slot_reads(transport, cluster, view.data))


def _unreadable(reads: SlotReads | None) -> dict[str, object]:
    names = ("unreadable_s", "last_hour_s", "last_day_s")
    found = (0.0, 0.0, 0.0) if reads is None else (reads.open_seconds, reads.hour_seconds, reads.day_seconds)
    return {name: round(seconds, 2) for name, seconds in zip(names, found, strict=True)}


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
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """Every server: its state, when it was heard last, how many slots it leads and follows, how many clients it has."""
    from msgspec.structs import asdict

    from slotreeve_cli.printing import print_rows
    from slotreeve_cli.through_gateway import gateway_of

    rows = list(map(asdict, _report(meta, cluster, gateway_of(gateway, token_file)).servers))
    print_rows(rows, output, empty="no member has joined yet", only_wide=ONLY_WIDE)


def status(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Whether the cluster is well: what is not as it should be, in sentences, and every server with its state. Exit
    code 1 where something is not."""
    from msgspec.structs import asdict

    from slotreeve_cli.printing import as_text, print_json, print_rows
    from slotreeve_cli.through_gateway import gateway_of

    report = _report(meta, cluster, gateway_of(gateway, token_file))
    if output is Output.JSON:
        print_json(report)
    else:
        typer.echo("The cluster is well." if report.well else "\n".join(map(as_text, report.problems)))
        led = f"{report.leader} leads in term {report.term} ({report.election})" if report.leader else "nobody leads"
        planning = ", the next table is being made" if report.is_planning else ""
        typer.echo(f"\n{led}; {report.slots} slots, table {report.table_epoch}{planning}\n")
        print_rows(list(map(asdict, report.servers)), Rows.TABLE, only_wide=ONLY_WIDE)
        if report.news:
            typer.echo("\n" + "\n".join(map(as_text, report.news)))
    if not report.well:
        raise typer.Exit(1)


def _report(addresses: list[str], cluster: str, through: ThroughGateway | None) -> ClusterReport:
    from slotreeve_client.condition import cluster_condition
    from slotreeve_client.reports import ClusterReport, cluster_report
    from slotreeve_client.tools import asked, run_async

    if through is not None:
        return through.read("status", ClusterReport)
    return cluster_report(run_async(asked(lambda transport: cluster_condition(transport, cluster, addresses))))


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
    """What every server counted since its start and holds now; repairs, gaps and failures are 0 in a quiet cluster.
    Exit code 1 where a server does not answer."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    rows: list[dict[str, object]] = []
    found, silent = run_async(_counters(meta, cluster))
    for server, values in found.items():
        rows += [{"server": server, "counter": name, "value": value} for name, value in values.items()]
    print_rows(rows, output)
    for server, why in silent.items():
        typer.echo(f"{server} does not tell what it counted: {why}", err=True)
    if silent:
        raise typer.Exit(1)


async def _counters(addresses: list[str], cluster: str) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """What the servers counted, and why others do not say it, by their names."""
    from asyncio import gather

    from slotreeve.errors import SlotreeveError
    from slotreeve_client.administration import cluster_view
    from slotreeve_client.administration import counters as ask_counters
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        view = await cluster_view(transport, cluster, addresses)
        servers = [(address, address) for address in addresses]
        servers += [(node.name, node.address) for node in [*view.data, *view.sessions]]
        asked = (ask_counters(transport, cluster, address) for _, address in servers)
        found: dict[str, dict[str, int]] = {}
        silent: dict[str, str] = {}
        for (name, _), answer in zip(servers, await gather(*asked, return_exceptions=True), strict=True):
            if isinstance(answer, SlotreeveError):
                silent[name] = str(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[name] = answer
        return found, silent
    finally:
        await transport.close()
