"""``slotreeve election``: leaders of the past, the leader now, and a request to the leader to step down."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli import (
    election_accept,
    election_ddl,
    election_force,
    election_members,
    election_release,
    election_swap,
)
from slotreeve_cli.options import (
    DEFAULT_META,
    ClusterOption,
    GatewayOption,
    MetaOption,
    Rows,
    RowsOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from datetime import datetime

    from slotreeve_protocol.meta_messages import History, LeaderIs, ShadowIs

WATCH_SECONDS = 0.1


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, help="The election of the meta leader.")
    group.command("history", epilog="Example: slotreeve election history -o json")(history)
    group.command("watch", epilog="Example: slotreeve election watch --count 3")(watch)
    group.command("resign", epilog="Example: slotreeve election resign")(resign)
    group.command("shadow", epilog="Example: slotreeve election shadow -o json")(shadow)
    election_accept.add_to(group)
    election_ddl.add_to(group)
    election_force.add_to(group)
    election_members.add_to(group)
    election_release.add_to(group)
    election_swap.add_to(group)
    app.add_typer(group, name="election")


def history(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """Changes of leadership as each of these meta servers saw them since its start.

    "least_margin_ms" is the shortest time that was ever left of the lease, where the server itself led.
    """
    from datetime import UTC, datetime

    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    rows: list[dict[str, object]] = [
        {
            "at": _iso(datetime.fromtimestamp(change.at_ms / 1000, UTC)),
            "seen_by": history.node,
            "leader": change.leader,
            "term": change.term,
            "cause": change.cause,
            "least_margin_ms": _milliseconds(change.least_margin_seconds),
        }
        for history in run_async(_histories(meta, cluster))
        for change in history.changes
    ]
    print_rows(sorted(rows, key=lambda row: str(row["at"])), output, empty="no leader was seen yet")


def watch(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
    count: Annotated[int, typer.Option(min=0, help="End after so many lines; 0: never.")] = 0,
) -> None:
    """One line for the present leader, and one for each change, until interrupted."""
    from slotreeve_client.tools import run_async

    run_async(_watch(meta, cluster, output, count))


def resign(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
    to: Annotated[str, typer.Option("--to", help="The meta server that shall lead next; it must live.")] = "",
) -> None:
    """Ask the meta leader to resign; it finishes writes under way first. With --to, a lock election keeps its row for
    that meta server for a moment; fle chooses the next leader itself."""
    from slotreeve_client.resignation import resign_leader
    from slotreeve_client.tools import asked, run_async

    from slotreeve_cli.printing import as_text, print_rows
    from slotreeve_cli.through_gateway import ElectionSaid, gateway_of

    through = gateway_of(gateway, token_file)
    if through is None:
        old = run_async(asked(lambda transport: resign_leader(transport, cluster, meta, to)))
        leader, term = old.leader, old.term
    else:
        known = through.read("election", ElectionSaid)
        act = through.act("POST", "election/resignation", {"to": to})
        typer.echo("\n".join(map(as_text, act.sentences)), err=True)
        leader, term = (known.leader, known.term or 0) if act.done else (None, known.term or 0)
    print_rows([{"resigned": leader, "term": term}], output)


async def _histories(addresses: list[str], cluster: str) -> list[History]:
    from slotreeve.errors import ClientError, Unreachable
    from slotreeve_client.administration import ask_any
    from slotreeve_client.tools import open_transport
    from slotreeve_protocol.meta_messages import GetHistory, History

    transport = open_transport()
    found, failures = [], []
    try:
        for address in addresses:
            try:
                reply = await ask_any(transport, cluster, [address], GetHistory())
            except Unreachable as error:
                failures.append(str(error))
                continue
            if not isinstance(reply, History):
                raise ClientError(f"{address} answered GetHistory with a {type(reply).__name__}")
            found.append(reply)
    finally:
        await transport.close()
    if not found:
        raise Unreachable("; ".join(failures))
    for failure in failures:
        typer.echo(f"slotreeve: left out: {failure}", err=True)
    return found


async def _watch(addresses: list[str], cluster: str, output: Rows, count: int) -> None:
    from slotreeve.errors import TransportError
    from slotreeve_client.administration import cluster_leader
    from slotreeve_client.tools import open_transport
    from slotreeve_protocol.meta_messages import LeaderIs

    transport = open_transport()
    shown: LeaderIs | None = None
    lines = 0
    try:
        while not count or lines < count:
            try:
                known = await cluster_leader(transport, cluster, addresses)
            except TransportError:
                if shown is None:
                    raise  # no server answers at all: the address is wrong
                known = LeaderIs(shown.term, None, None)
            if known != shown:
                shown = known
                lines += 1
                _print_leader(known, output)
            await asyncio.sleep(WATCH_SECONDS)
    finally:
        await transport.close()


def _print_leader(known: LeaderIs, output: Rows) -> None:
    from datetime import UTC, datetime

    from slotreeve_cli.printing import print_json

    at = _iso(datetime.now(UTC))
    if output is Rows.JSON:
        print_json({"at": at, "leader": known.leader, "address": known.address, "term": known.term})
    else:
        typer.echo(f"{at}  term {known.term}  {known.leader or 'no leader known'}")


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(1000 * seconds)


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def shadow(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """The shadow election (meta.shadow_election) against the one in use, as each meta server saw both. Exit code 1
    where one of them takes no part or does not agree that there is a leader."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    reports = run_async(_shadow(meta, cluster))
    rows: list[dict[str, object]] = [
        {
            "meta": address,
            "agrees": report.agrees,
            "leader": report.leader,
            f"{report.name} leader": report.shadow_leader,
            "changes": report.changes,
            f"{report.name} changes": report.shadow_changes,
            "leaderless, s": round(report.leaderless_seconds, 3),
            f"{report.name} leaderless, s": round(report.shadow_leaderless_seconds, 3),
            "failure": report.failure or None,
        }
        for address, report in reports.items()
    ]
    print_rows(rows, output)
    if not all(report.agrees for report in reports.values()):
        raise typer.Exit(1)


async def _shadow(addresses: list[str], cluster: str) -> dict[str, ShadowIs]:
    from slotreeve_client.administration import ask_any
    from slotreeve_client.tools import open_transport
    from slotreeve_protocol.meta_messages import GetShadow, ShadowIs

    transport = open_transport()
    reports = {}
    try:
        for address in addresses:
            reply = await ask_any(transport, cluster, [address], GetShadow())
            assert isinstance(reply, ShadowIs)
            reports[address] = reply
    finally:
        await transport.close()
    return reports
