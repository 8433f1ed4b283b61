"""``slotreeve spark ...``: plugins compared and recorded events looked at, on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import Output, OutputOption, is_terminal

if TYPE_CHECKING:
    from slotreeve_spark.comparisons import ComparisonOutcome
    from slotreeve_spark.session import SparkSession

MasterOption = Annotated[
    str,
    typer.Option("--master", envvar="SLOTREEVE_SPARK_MASTER", help="Where Spark runs: local[2], spark://HOST:PORT."),
]
ConfOption = Annotated[list[str], typer.Option("--conf", help="A setting of Spark's, key=value; repeatable.")]
OutOption = Annotated[Path, typer.Option("--out", help="Directory for Parquet tables and the HTML report.")]
WheelOption = Annotated[
    list[Path], typer.Option("--plugin-wheel", help="Ship this wheel to the executors; repeatable.")
]
WarehouseOption = Annotated[Path, typer.Option("--warehouse", "-w", help="Directory of the pipeline's tables.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds after which a cell is given up.")]
SeedsOption = Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0 .. N-1 of everything random.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Compare plugins and look at recorded events, on Spark.", no_args_is_help=True)
    compare = typer.Typer(help="Compare plugins by evidence.", no_args_is_help=True)
    compare.command(
        "slot-functions",
        epilog="Examples: slotreeve spark compare slot-functions  |  slotreeve spark compare slot-functions "
        "--keys generated:10_000_000 --functions crc32c --slots 256",
    )(compare_slot_functions)
    compare.command(
        "balancers",
        epilog="Example: slotreeve spark compare balancers --balancers default,even --seeds 10 --master 'local[2]'",
    )(compare_balancers)
    compare.command(
        "elections", epilog="Example: slotreeve spark compare elections --backends fle,lock --seeds 5 --nodes 3,5"
    )(compare_elections)
    group.add_typer(compare, name="compare")
    group.command("ingest", epilog="Example: slotreeve spark ingest var/events --warehouse warehouse")(ingest)
    group.command("marts", epilog="Example: slotreeve spark marts --warehouse warehouse -o json")(marts)
    group.command("at", epilog="Example: slotreeve spark at 2026-11-21T12:00:00Z --warehouse warehouse")(at)
    group.command("diff", epilog="Example: slotreeve spark diff 2026-11-21T12:00 2026-11-21T13:00")(diff)
    group.command("doctor", epilog="Example: slotreeve spark doctor -o json")(doctor)
    app.add_typer(group, name="spark")


def compare_slot_functions(
    keys: Annotated[
        str,
        typer.Option(help="jars, jars:DIR, generated:COUNT, parquet:PATH, events:WAREHOUSE or a text file."),
    ] = "jars",
    functions: Annotated[str, typer.Option(help="Names of slot functions, with commas.")] = "crc32c,md5",
    slots: Annotated[str, typer.Option(help="Numbers of slots, ascending, with commas.")] = "256,1024,16384",
    column: Annotated[str, typer.Option(help="Column of a Parquet source.")] = "",
    out: OutOption = Path("slot-functions"),
    timeout: TimeoutOption = 60.0,
    wheels: WheelOption = [],  # noqa: B006 - typer copies it
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """How evenly and how fast slot functions spread real or generated keys."""
    copies = _open_wheels(wheels)
    from slotreeve_spark.compare.slot_functions import SlotFunctionQuestion
    from slotreeve_spark.comparisons import compare_slot_functions as compare
    from slotreeve_spark.report.results import Directory

    asked = SlotFunctionQuestion(_names(functions, "--functions"), tuple(_numbers(slots, "--slots")), timeout)
    directory = Directory.make(out)
    with _session(master, conf, copies) as session:
        _report(compare(session, keys, column, asked, directory), output)


def compare_balancers(
    balancers: Annotated[str, typer.Option(help="Names of balancers, with commas.")] = "default,even",
    assigners: Annotated[str, typer.Option(help="Names of assigners; namesake: each balancer's own.")] = "namesake",
    traces: Annotated[
        str, typer.Option(help="generated, names of such with semicolons, a file, or recorded:WAREHOUSE (shadow run).")
    ] = "generated",
    slots: Annotated[int, typer.Option(min=1, max=65_536, help="Number of slots.")] = 256,
    servers: Annotated[str, typer.Option(help="Servers at the beginning of generated traces, with commas.")] = "20",
    replicas: Annotated[int, typer.Option(min=1, max=7, help="Copies of each slot.")] = 2,
    round_seconds: Annotated[float, typer.Option(min=0.001, help="Trace seconds that a decision takes.")] = 1.0,
    seeds: SeedsOption = 3,
    out: OutOption = Path("balancers"),
    timeout: TimeoutOption = 120.0,
    wheels: WheelOption = [],  # noqa: B006
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """What balancers do when servers join and leave: moves, copies, time, spread, gaps."""
    copies = _open_wheels(wheels)
    from dataclasses import replace

    from slotreeve_spark.compare.balancers import BalancerQuestion
    from slotreeve_spark.compare.traces import KINDS, read_traces
    from slotreeve_spark.comparisons import compare_balancers as compare
    from slotreeve_spark.pipeline.history import recorded_trace
    from slotreeve_spark.pipeline.ingest import Warehouse
    from slotreeve_spark.report.results import Directory

    recorded, _, warehouse = traces.partition(":")
    is_recorded = recorded == "recorded"
    given = tuple(read_traces(Path(traces))) if Path(traces).is_file() else ()
    asked = BalancerQuestion(
        _names(balancers, "--balancers"),
        _names(assigners, "--assigners"),
        tuple((slots, number) for number in _numbers(servers, "--servers")),
        replicas,
        seeds,
        given,
        tuple(KINDS) if traces == "generated" or given or is_recorded else _names(traces, "--traces", ";"),
        round_seconds,
        timeout,
    )
    directory = Directory.make(out)
    with _session(master, conf, copies) as session:
        if is_recorded:
            asked = replace(
                asked, traces=(recorded_trace(session, Warehouse.existing(Path(warehouse or "warehouse"))),)
            )
        _report(compare(session, asked, directory), output)


def compare_elections(
    backends: Annotated[str, typer.Option(help="Names of elections, with commas; lock: on a simulated table.")] = (
        "fle,lock"
    ),
    nodes: Annotated[str, typer.Option(help="Numbers of meta servers, with commas.")] = "3",
    scenarios: Annotated[str, typer.Option(help="How the leader is taken away, with commas.")] = (
        "killed,frozen,cut off,resigned"
    ),
    rounds: Annotated[int, typer.Option(min=1, help="How often the leader is taken away in a cell.")] = 10,
    seeds: SeedsOption = 3,
    out: OutOption = Path("elections"),
    timeout: TimeoutOption = 120.0,
    wheels: WheelOption = [],  # noqa: B006
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """How long elections leave a cluster without a leader, in seeded simulation on virtual time."""
    copies = _open_wheels(wheels)
    from slotreeve_spark.compare.elections import ElectionQuestion
    from slotreeve_spark.comparisons import compare_elections as compare
    from slotreeve_spark.report.results import Directory

    asked = ElectionQuestion(
        _names(backends, "--backends"),
        tuple(_numbers(nodes, "--nodes")),
        _names(scenarios, "--scenarios"),
        seeds,
        rounds,
        timeout_seconds=timeout,
    )
    directory = Directory.make(out)
    with _session(master, conf, copies) as session:
        _report(compare(session, asked, directory), output)


# --- recorded events -------------------------------------------------------------------------------------------------


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
    _must_be_fit()
    from dataclasses import asdict

    from slotreeve_spark.pipeline import ingest as pipeline

    from slotreeve_cli.printing import print_json

    pipeline.must_be_a_log(log)
    store = pipeline.Warehouse.open(warehouse)
    with _session(master, conf) as session:
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

    _must_be_fit()
    from slotreeve_spark.pipeline import marts as pipeline
    from slotreeve_spark.pipeline.ingest import Warehouse

    store = Warehouse.existing(warehouse)
    with _session(master, conf) as session:
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

    _must_be_fit()
    from slotreeve_spark.pipeline.history import instant, table_at
    from slotreeve_spark.pipeline.ingest import Warehouse

    store, when = Warehouse.existing(warehouse), instant(moment)
    with _session(master, conf) as session:
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

    _must_be_fit()
    from slotreeve_spark.pipeline.history import difference, instant
    from slotreeve_spark.pipeline.ingest import Warehouse

    store, moments = Warehouse.existing(warehouse), (instant(first), instant(second))
    with _session(master, conf) as session:
        rows = [row.asDict() for row in difference(session, store, *moments).collect()]
    print_rows(rows, output, empty="no slot differs")


def doctor(output: OutputOption = Output.TABLE) -> None:
    """Check Java, pyspark, pandas and pyarrow; print what to do if one does not fit. Exit code 1 if so."""
    from slotreeve_spark.doctor import examine

    from slotreeve_cli.printing import print_rows

    findings = examine()
    rows: list[dict[str, object]] = [
        {"what": f.what, "good": f.good, "found": f.found, "problem": f.problem, "remedy": f.remedy} for f in findings
    ]
    print_rows(rows, output)
    if not all(finding.good for finding in findings):
        raise typer.Exit(1)


# --- what they have in common ----------------------------------------------------------------------------------------


# Spark takes seconds to start: whatever can be found wrong without it is found before.


def _must_be_fit() -> None:
    """Call it before importing anything else of the Spark side. Raises ConfigError if Spark cannot run here."""
    from slotreeve_spark.doctor import must_be_fit

    must_be_fit()


def _open_wheels(wheels: list[Path]) -> list[Path]:
    """The wheels' plugins are known to this process from now on; what to ship. Raises ConfigError."""
    _must_be_fit()
    from slotreeve_spark.shipping import open_wheels

    return open_wheels(wheels)


@contextmanager
def _session(master: str, conf: list[str], copies: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """A Spark session with the opened wheels shipped; stopped at the end. Spark's own progress bar on a terminal."""
    from slotreeve_spark.session import open_session
    from slotreeve_spark.shipping import ship

    settings = {"spark.ui.showConsoleProgress": str(is_terminal()).lower()} | dict(_pair(each) for each in conf)
    typer.echo(f"starting Spark on {master}", err=True)
    session = open_session(master, settings)
    try:
        ship(session, copies)
        yield session
    finally:
        session.stop()


def _pair(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise typer.BadParameter(f"--conf {setting}: expected key=value, e.g. --conf spark.executor.memory=2g")
    return key, value


def _names(text: str, option: str, separator: str = ",") -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(separator) if name.strip())
    if not names:
        raise typer.BadParameter(f"{option} {text}: expected at least one name")
    return names


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} {text}: expected whole numbers with commas, e.g. 256,1024") from None


_SHOWN = (
    "function",
    "slots",
    "slots_after",
    "keys",
    "moved_share",
    "least_share",
    "most_over_mean",
    "variation",
    "p_value",
    "empty",
    "nanoseconds_per_key",
)
"""Columns of slot functions for the terminal; the report and JSON have all."""


def _report(outcome: ComparisonOutcome, output: Output) -> None:
    from slotreeve_spark.report.terminal import side_by_side

    from slotreeve_cli.printing import print_json, print_rows

    if output is Output.JSON:
        print_json(
            {
                "tables": outcome.tables,
                "verdicts": outcome.lines,
                "failed": outcome.failed,
                "report": str(outcome.report),
                "seconds": round(outcome.seconds, 2),
            }
        )
        return
    for title, rows in outcome.tables.items():
        if title == "summary":
            for setting, table in side_by_side(rows):
                print_rows(table, output, title=f"{setting}: mean (95 % interval), less is better")
        elif rows:
            print_rows([{name: row[name] for name in _SHOWN if name in row} for row in rows], output, title=title)
            typer.echo("")
    if "summary" not in outcome.tables:
        typer.echo("\n".join(outcome.lines))
    if outcome.failed:
        print_rows(outcome.failed, output, title="what failed")
    typer.echo(f"report: {outcome.report} ({outcome.seconds:.1f} s)")
