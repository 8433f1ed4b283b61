"""``slotreeve get`` and ``slotreeve ls``: look once."""

from __future__ import annotations

from typing import Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    DEFAULT_SESSION,
    NOT_FOUND,
    ClusterOption,
    MetaOption,
    Rows,
    RowsOption,
    SessionOption,
)


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "get",
        epilog="Examples: slotreeve get com.example.Greeter -o json  |  slotreeve get com.example.Greeter --at 10m",
    )(get)
    app.command("ls", epilog="Examples: slotreeve ls  |  slotreeve ls com.example.")(ls)


def get(
    service: Annotated[str, typer.Argument(help="The service: a data id, or a whole data info id.")],
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
    at: Annotated[
        str | None,
        typer.Option("--at", help="As they were then: 90s, 10m, 2h or 1d ago, 14:05, or an ISO time. Asks --meta."),
    ] = None,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
) -> None:
    """Print the providers of SERVICE, as the leader of its slot has them now, or had them. Exit code 3 where there are
    none. Of the past it prints what providers said, without the overrides of operators."""
    from slotreeve_client.tools import run_async

    if at is None:
        run_async(_get(session, cluster, service, output))
    else:
        _get_at(meta, cluster, service, at, output)


async def _get(sessions: list[str], cluster: str, service: str, output: Rows) -> None:
    from slotreeve_client.tools import open_client

    from slotreeve_cli.instances import provider_row, provider_table
    from slotreeve_cli.printing import print_rows

    async with open_client(sessions, cluster) as client:
        providers = await client.get(service)
    rows = list(map(provider_row, providers)) if output is Rows.JSON else provider_table(providers)
    print_rows(rows, output, empty=f"{service} has no providers", only_wide=("register_id",))
    if not rows:
        raise typer.Exit(NOT_FOUND)


def _get_at(metas: list[str], cluster: str, service: str, at: str, output: Rows) -> None:
    import time

    from slotreeve_client import Provider
    from slotreeve_client.history import service_at
    from slotreeve_client.tools import asked, run_async
    from slotreeve_events.stories import known_text, may_begin_too_late

    from slotreeve_cli.instances import provider_row, provider_table
    from slotreeve_cli.past import say_silent
    from slotreeve_cli.printing import print_rows
    from slotreeve_cli.times import parse_time, shown_time

    at_ms = parse_time("--at", at, time.time_ns() // 1_000_000)
    past = run_async(asked(lambda transport: service_at(transport, cluster, metas, service, at_ms)))
    providers = [Provider(r.register_id, r.zone, r.data or ()) for _, r in sorted(past.records.items())]
    rows = list(map(provider_row, providers)) if output is Rows.JSON else provider_table(providers)
    print_rows(rows, output, empty=f"{service} had no providers", only_wide=("register_id",))
    typer.echo(known_text(past.known, past.server, shown_time(at_ms), shown_time(past.since_ms)), err=True)
    if may_begin_too_late(past.known) and past.begins_ms > at_ms:
        typer.echo(f"the history begins at {shown_time(past.begins_ms)} only", err=True)
    say_silent(past.silent)
    if not rows:
        raise typer.Exit(NOT_FOUND)


def ls(
    prefix: Annotated[str, typer.Argument(help="Only services whose id starts with this.")] = "",
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """The services that have providers, with their number."""
    from slotreeve_client.tools import run_async

    run_async(_ls(session, cluster, prefix, output))


async def _ls(sessions: list[str], cluster: str, prefix: str, output: Rows) -> None:
    from slotreeve.model.data_info import short_name
    from slotreeve_client.tools import open_client

    from slotreeve_cli.printing import print_rows

    async with open_client(sessions, cluster) as client:
        counts = await client.list(prefix)
    name = str if output is Rows.JSON else short_name
    rows: list[dict[str, object]] = [{"service": name(each), "providers": counts[each]} for each in sorted(counts)]
    print_rows(rows, output, empty="no services")
