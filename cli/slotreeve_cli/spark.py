"""``slotreeve spark ...``: plugins compared and recorded events looked at, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotreeve_cli import spark_compare, spark_seed, spark_tune
from slotreeve_cli.options import Output, OutputOption
from slotreeve_cli.spark_options import ConfOption, MasterOption, WarehouseOption, must_be_fit, spark_session


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Compare plugins and look at recorded events, on Spark.", no_args_is_help=True)
    spark_compare.add_to(group)
    spark_tune.add_to(group)
    group.command("ingest", epilog="Example: slotreeve spark ingest var/events --warehouse warehouse")(ingest)
    group.command("marts", epilog="Example: slotreeve spark marts --warehouse warehouse -o json")(marts)
    group.command("at", epilog="Example: slotreeve spark at 2026-11-21T12:00:00Z --warehouse warehouse")(at)
    group.command("diff", epilog="Example: slotreeve spark diff 2026-11-21T12:00 2026-11-21T13:00")(diff)
    spark_seed.add_to(group)
    group.command("doctor", epilog="Example: slotreeve spark doctor -o json")(doctor)
    app.add_typer(group, name="spark")


def ingest(
    log: Annotated[Path, typer.Argument(help="Directory of event logs, as servers write it at [events] path.")],
    warehouse: WarehouseOption = Path("warehouse"),
    lateness: Annotated[str, typer.Option(help="Records older than the newest by more than this are dropped.")] = (
        "1 day"
    ),
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Also segments still open: of servers that were killed.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until interrupted.")] = False,
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Read what is new in the event log into the tables raw, cleaned and quarantine. It is safe to run this again."""
    must_be_fit()
    from dataclasses import asdict

    from slotreeve_spark.pipeline import ingest as pipeline

    from slotreeve_cli.printing import print_json

    pipeline.must_be_a_log(log)
    store = pipeline.Warehouse.open(warehouse)
    with spark_session(master, conf) as session:
        if follow:
            typer.echo(f"taking in {log} every {pipeline.EVERY_SECONDS} s; end it with Ctrl-C", err=True)
            pipeline.follow(session, log, store, lateness)
            session.streams.awaitAnyTermination()
            return
        done = pipeline.ingest(session, log, store, lateness, unfinished)
    if output is Output.JSON:
        print_json(asdict(done))
    else:
        typer.echo(
            f"{done.lines:,} lines read: {done.cleaned:,} new records stored, {done.late:,} too late; "
            f"{done.quarantined:,} bad lines put into quarantine"
        )


def marts(
    warehouse: WarehouseOption = Path("warehouse"),
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Make the marts: service timeline, push latency, slot history, moves and their causes, membership."""
    from slotreeve_cli.printing import print_rows

    must_be_fit()
    from slotreeve_spark.pipeline import marts as pipeline
    from slotreeve_spark.pipeline.ingest import Warehouse

    store = Warehouse.existing(warehouse)
    with spark_session(master, conf) as session:
        rows = pipeline.build(session, store)
    print_rows([{"mart": name, "rows": number} for name, number in rows.items()], output)


def at(
    moment: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601, UTC unless a zone is given.")],
    warehouse: WarehouseOption = Path("warehouse"),
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """The slot table at a moment of the past."""
    from slotreeve_cli.printing import print_rows

    must_be_fit()
    from slotreeve_spark.pipeline.history import instant, table_at
    from slotreeve_spark.pipeline.ingest import Warehouse

    store, when = Warehouse.existing(warehouse), instant(moment)
    with spark_session(master, conf) as session:
        rows = [row.asDict() for row in table_at(session, store, when).collect()]
    print_rows(rows, output, empty="no slot was assigned then")


def diff(
    first: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601, UTC unless a zone is given.")],
    second: Annotated[str, typer.Argument(metavar="TIME", help="A later moment, or an earlier one.")],
    warehouse: WarehouseOption = Path("warehouse"),
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Slots whose leader or followers differ between two moments."""
    from slotreeve_cli.printing import print_rows

    must_be_fit()
    from slotreeve_spark.pipeline.history import difference, instant
    from slotreeve_spark.pipeline.ingest import Warehouse

    store, moments = Warehouse.existing(warehouse), (instant(first), instant(second))
    with spark_session(master, conf) as session:
        rows = [row.asDict() for row in difference(session, store, *moments).collect()]
    print_rows(rows, output, empty="no slot differs")


def doctor(output: OutputOption = Output.TABLE) -> None:
    """Check Java, pyspark, pandas, pyarrow and matplotlib; print what to do if one does not fit. Exit code 1 if so."""
    from slotreeve_spark.doctor import examine

    from slotreeve_cli.printing import print_rows

    findings = examine()
    rows: list[dict[str, object]] = [
        {"what": f.what, "good": f.good, "found": f.found, "problem": f.problem, "remedy": f.remedy} for f in findings
    ]
    print_rows(rows, output)
    if not all(finding.good for finding in findings):
        raise typer.Exit(1)
