"""``slotreeve chaos run|check``: faults on real processes, and a verdict on what came of them."""

from __future__ import annotations

import random
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import Output, OutputOption, SetOption, dotted

if TYPE_CHECKING:
    from slotreeve_chaos.checker import HistoryVerdict
    from slotreeve_chaos.sql_servers import SqlServer


class Database(StrEnum):
    """Which database server."""

    POSTGRES = "postgres"
    MYSQL = "mysql"


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Kill, pause, cut off and restart real processes; check what clients and servers saw.")
    group.command(
        "run",
        epilog="Examples: slotreeve chaos run  |  slotreeve chaos run --minutes 30 --seed 7 --directory chaos  |  "
        "slotreeve chaos run --only 'kill data' --only delay  |  slotreeve chaos run --database postgres",
    )(run)
    group.command("check", epilog="Example: slotreeve chaos check chaos/history.jsonl --report report.html")(check)
    app.add_typer(group, name="chaos", no_args_is_help=True)


def run(
    minutes: Annotated[float, typer.Option(min=0.05, help="How long faults are caused.")] = 3.0,
    seed: Annotated[int | None, typer.Option(help="Decides the faults; default: a new one, printed.")] = None,
    directory: Annotated[
        Path | None, typer.Option("--directory", "-d", help="Keeps history, report and logs; default: chaos-SEED.")
    ] = None,
    only: Annotated[list[str], typer.Option("--only", help="Only this kind of fault; repeatable.")] = [],  # noqa: B006
    database: Annotated[
        Database | None, typer.Option(help="Elect by a lock in a real database server, started here; kill that, too.")
    ] = None,
    output: OutputOption = Output.TABLE,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Start 3 meta + 3 data + 2 session processes behind proxies, publish and subscribe, cause one fault after the
    other, end them all, and check every invariant on the recorded history. Exit code 0 only if all held."""
    from slotreeve_chaos.run import run_chaos
    from slotreeve_client.tools import run_async

    chosen = seed if seed is not None else random.SystemRandom().getrandbits(32)
    where = directory or Path(f"chaos-{chosen}")
    where.mkdir(parents=True, exist_ok=True)
    typer.echo(f"seed {chosen}, history in {where}", err=True)

    def tell(what: str, elapsed: float) -> None:
        typer.echo(f"{elapsed:7.1f} s  {what}", err=True)

    with ExitStack() as stack:
        server = None if database is None else stack.enter_context(_database(database))
        history = run_async(run_chaos(where, 60 * minutes, chosen, only, tell, dotted(settings), server))
    _judge(history, where / "report.html", chosen, output)


def _database(kind: Database) -> SqlServer:
    from slotreeve_chaos.sql_servers import MariaDbServer, PostgresServer

    return PostgresServer() if kind is Database.POSTGRES else MariaDbServer()


def check(
    history: Annotated[Path, typer.Argument(help="A history, JSON lines.")],
    report: Annotated[Path | None, typer.Option(help="Write an HTML report there.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a recorded history against the invariants. Exit code 0 only if all held."""
    _judge(history, report, None, output)


def _judge(history: Path, report: Path | None, seed: int | None, output: Output) -> None:
    from slotreeve_chaos.checker import Checker
    from slotreeve_chaos.history import read
    from slotreeve_chaos.report import as_html

    records = list(read(history))
    verdict = Checker().check(records)
    if report is not None:
        report.write_text(as_html(verdict, records, seed), encoding="utf-8")
    _print(verdict, report, output)
    if verdict.violations:
        raise typer.Exit(1)


def _print(verdict: HistoryVerdict, report: Path | None, output: Output) -> None:
    from slotreeve_harness.figures import spread_of

    from slotreeve_cli.printing import print_json

    if output is Output.JSON:
        print_json(
            {
                "held": not verdict.violations,
                "violations": [{"t": v.t, "invariant": v.invariant, "what": v.what} for v in verdict.violations],
                "published": verdict.published,
                "callbacks": verdict.callbacks,
                "missing": verdict.missing,
                "stale": verdict.stale,
                "faults": verdict.faults,
                "terms": len(verdict.leaders),
                "dead_seen_for_seconds": spread_of(verdict.gone_after_seconds),
                "leases": verdict.leases,
                "leases_seen_after_their_end_seconds": spread_of(verdict.leases_gone_after_seconds),
                "report": None if report is None else str(report),
            }
        )
        return
    typer.echo(
        f"{verdict.published:,} publishes, {verdict.callbacks:,} callbacks, {sum(verdict.faults.values())} faults, "
        f"{len(verdict.leaders)} terms; {verdict.missing} missing and {verdict.stale} stale at the end"
    )
    for violation in verdict.violations[:20]:
        typer.echo(f"BROKEN  {violation.t:8.2f} s  {violation.invariant}  {violation.what}")
    typer.echo("every invariant held" if not verdict.violations else f"{len(verdict.violations)} violations")
    if report is not None:
        typer.echo(f"report: {report}")
