"""``slotreeve spark ...``: plugins compared and recorded events looked at, on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from slotreeve_cli import spark_compare, spark_seed, spark_tune
from slotreeve_cli.options import Output, OutputOption
from slotreeve_cli.spark_options import ConfOption, MasterOption, WarehouseOption, must_be_fit, say, spark_session


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Compare plugins and look at recorded events, on Spark.", no_args_is_help=True)
    spark_compare.add_to(group)
    spark_tune.add_to(group)
    group.command("ingest", epilog="Example: slotreeve spark ingest var/events --warehouse warehouse")(ingest)
    group.command("marts", epilog="Example: slotreeve spark marts --warehouse warehouse -o json")(marts)
    group.command("compact", epilog="Example: slotreeve spark compact --warehouse s3a://bucket/warehouse")(compact)
    group.command("at", epilog="Example: slotreeve spark at 2026-11-21T12:00:00Z --warehouse warehouse")(at)
    group.command("diff", epilog="Example: slotreeve spark diff 2026-11-21T12:00 2026-11-21T13:00")(diff)
    spark_seed.add_to(group)
    group.command("doctor", epilog="Example: slotreeve spark doctor -o json")(doctor)
    app.add_typer(group, name="spark")


def ingest(
    log: Annotated[str, typer.Argument(help="Directory of event logs, as servers write it at [events] path.")],
    warehouse: WarehouseOption = "warehouse",
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
    from slotreeve_spark.pipeline.warehouse import Warehouse

    from slotreeve_cli.printing import print_json

    pipeline.event_log(log)
    store = Warehouse.open(warehouse)
    with spark_session(master, conf) as session:
        if follow:
            typer.echo(f"taking in {log} every {pipeline.EVERY_SECONDS} s; end it with Ctrl-C", err=True)
            pipeline.follow(session, log, store, lateness)
            pipeline.wait(session)
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
    warehouse: WarehouseOption = "warehouse",
    only: Annotated[list[str], typer.Option(help="Make this one only; repeatable. Default: all.")] = [],  # noqa: B006
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Make the marts: service timeline, push latency, slot history, moves and their causes, membership."""
    from slotreeve_cli.printing import print_rows

    must_be_fit()
    from slotreeve_spark.pipeline import marts as pipeline
    from slotreeve_spark.pipeline.warehouse import Warehouse

    pipeline.must_be_marts(only)
    store = Warehouse.existing(warehouse)
    with spark_session(master, conf) as session:
        rows = pipeline.build(session, store, only, say)
    print_rows([{"mart": name, "rows": number} for name, number in rows.items()], output)


def compact(
    warehouse: WarehouseOption = "warehouse",
    keep_hours: Annotated[
        float, typer.Option("--keep-hours", min=0.0, help="Delete files that were replaced so long ago.")
    ] = 24.0,
    file_megabytes: Annotated[int, typer.Option("--file-megabytes", min=1, help="Size of a large file.")] = 256,
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Rewrite the small files of every day but the newest as few large ones. Readers and ingest may go on meanwhile; it
    is safe to kill this, and to run it again."""
    from slotreeve_cli.printing import print_rows

    must_be_fit()
    from dataclasses import asdict

    from slotreeve_spark.pipeline import compact as pipeline
    from slotreeve_spark.pipeline.warehouse import Warehouse

    store = Warehouse.existing(warehouse)
    with spark_session(master, conf) as session:
        done = pipeline.compact(session, store, keep_hours, file_megabytes * 2**20)
    print_rows([asdict(each) for each in done], output)


def at(
    moment: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601, UTC unless a zone is given.")],
    warehouse: WarehouseOption = "warehouse",
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """The slot table at a moment of the past."""
    from slotreeve_cli.printing import print_rows

    must_be_fit()
    from slotreeve_spark.pipeline.history import in_words, instant, table_at
    from slotreeve_spark.pipeline.warehouse import Warehouse

    store, when = Warehouse.existing(warehouse), instant(moment)
    store.must_have_mart("slot_history")
    with spark_session(master, conf) as session:
        rows = [row.asDict() for row in in_words(table_at(session, store, when), "since").collect()]
    print_rows(rows, output, empty="no slot was assigned then")


def diff(
    first: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601, UTC unless a zone is given.")],
    second: Annotated[str, typer.Argument(metavar="TIME", help="A later moment, or an earlier one.")],
    warehouse: WarehouseOption = "warehouse",
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Slots whose leader or followers differ between two moments."""
    from slotreeve_cli.printing import print_rows

    must_be_fit()
    from slotreeve_spark.pipeline.history import difference, instant
    from slotreeve_spark.pipeline.warehouse import Warehouse

    store, moments = Warehouse.existing(warehouse), (instant(first), instant(second))
    store.must_have_mart("slot_history")
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
