"""``slotreeve demo``: the main job on real input, with servers killed while it goes on."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from slotreeve_client.tools import run_async

from slotreeve_cli.options import Output, OutputOption

if TYPE_CHECKING:
    from rich.progress import Progress
    from slotreeve_demo.stage import DemoOutcome, DemoPlan


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "demo",
        epilog="Examples: slotreeve demo  |  slotreeve demo --names services.txt --rate 500 -o json. "
        "Exit code 0 only if every check held.",
    )(demo)


def demo(
    names: Annotated[
        Path | None, typer.Option("--names", help="File with one service name a line; default: every module and class.")
    ] = None,
    meta: Annotated[int, typer.Option(min=3, max=9, help="Number of meta servers.")] = 3,
    data: Annotated[int, typer.Option(min=2, max=32, help="Number of data servers.")] = 3,
    session: Annotated[int, typer.Option(min=2, max=32, help="Number of session servers.")] = 2,
    publishers: Annotated[int, typer.Option(min=1, max=64, help="Clients that publish.")] = 4,
    subscribers: Annotated[int, typer.Option(min=1, max=64, help="Clients that subscribe to every service.")] = 2,
    rate: Annotated[float, typer.Option(min=1, help="Changes a second while servers are killed.")] = 200.0,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice; default: a new one, printed.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Start a cluster of processes, publish every module and class of this Python, subscribe to them, kill a meta
    leader, a data server and a session server meanwhile, and compare what every subscriber sees with the truth."""
    from slotreeve_demo.stage import DemoPlan

    chosen = seed if seed is not None else random.SystemRandom().getrandbits(32)
    plan = DemoPlan(publishers, subscribers, rate, chosen)
    began = time.monotonic()
    with _progress() as progress:
        services = _names(names, progress)
        outcome = run_async(_play(services, plan, (meta, data, session), progress))
    report(outcome, plan, time.monotonic() - began, output)
    if not all(held for held, _ in checks(outcome)):
        raise typer.Exit(1)


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), refresh_per_second=8)


def _names(file: Path | None, progress: Progress) -> list[str]:
    from slotreeve_demo.names import names_from, names_in, source_files

    if file is not None:
        return names_from(file)
    task = progress.add_task("reading the names of modules and classes", total=None)
    sources = source_files()
    progress.update(task, total=len(sources))
    found: dict[str, None] = {}
    for root, source in sources:
        found.update(dict.fromkeys(names_in(root, source)))
        progress.advance(task)
    return list(found)


async def _play(services: list[str], plan: DemoPlan, sizes: tuple[int, int, int], progress: Progress) -> DemoOutcome:
    import tempfile

    from slotreeve_client.tools import open_transport
    from slotreeve_demo.stage import DemoStage
    from slotreeve_harness.processes import LocalCluster

    with tempfile.TemporaryDirectory(prefix="slotreeve-demo-") as directory:
        cluster = LocalCluster(Path(directory), *sizes)
        transport = open_transport(cluster.transport)
        starting = progress.add_task(f"starting {sizes[0]} meta, {sizes[1]} data, {sizes[2]} session", total=1)
        try:
            with cluster:
                await cluster.ready(transport)
                progress.advance(starting)
                return await DemoStage(cluster, transport, services, plan, _Teller(progress)).play()
        finally:
            await transport.close()


class _Teller:
    """Turns what the stage tells into one progress line a step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._step = ""

    def __call__(self, step: str, done: int, of: int) -> None:
        tasks = self._progress.tasks
        if step != self._step:
            if self._step:
                last = tasks[-1]
                self._progress.update(last.id, total=last.total or 1, completed=last.total or 1)
            self._step = step
            self._progress.add_task(step, total=of or None)
        else:
            self._progress.update(tasks[-1].id, completed=done)


def checks(outcome: DemoOutcome) -> list[tuple[bool, str]]:
    """Every check: did it hold, and in words."""
    kills = ", ".join(outcome.failovers_ms)
    return [
        (outcome.publishes >= 10_000, f"{outcome.publishes:,} publishes of {outcome.services:,} names acknowledged"),
        (len(outcome.failovers_ms) == 3, f"{len(outcome.failovers_ms)} kills survived: {kills}"),
        (outcome.compared > 0 and not outcome.missing, f"{len(outcome.missing)} missing of {outcome.compared:,} views"),
        (not outcome.stale, f"{len(outcome.stale)} stale"),
        (not outcome.vanished, f"{len(outcome.vanished)} vanished from a subscriber's view while published"),
        (len(outcome.latencies_ms) > 0, f"{len(outcome.latencies_ms):,} changes seen by subscribers during the kills"),
    ]


def report(outcome: DemoOutcome, plan: DemoPlan, seconds: float, output: Output) -> None:
    """Print the summary."""
    from slotreeve_bench.figures import spread_of

    from slotreeve_cli.printing import print_json

    latency = spread_of(outcome.latencies_ms)
    if output is Output.JSON:
        print_json(
            {
                "held": all(held for held, _ in checks(outcome)),
                "checks": [{"held": held, "what": what} for held, what in checks(outcome)],
                "services": outcome.services,
                "publishes": outcome.publishes,
                "acknowledged_per_second": round(outcome.acknowledged_per_second),
                "changes_during_kills": outcome.changes,
                "callbacks": outcome.callbacks,
                "latency_ms": latency,
                "failover_ms": {what: round(ms, 1) for what, ms in outcome.failovers_ms.items()},
                "moves": outcome.moves,
                "missing": outcome.missing[:100],
                "stale": outcome.stale[:100],
                "vanished": outcome.vanished[:100],
                "seed": plan.seed,
                "seconds": round(seconds, 1),
            }
        )
        return
    _print_summary(outcome, plan, seconds, latency)


def _print_summary(outcome: DemoOutcome, plan: DemoPlan, seconds: float, latency: dict[str, float | int]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("published", f"{outcome.publishes:,} at {outcome.acknowledged_per_second:,.0f} acknowledged a second")
    table.add_row(
        "publish -> callback, while servers die",
        f"p50 {latency['p50']:.2f} ms   p99 {latency['p99']:.1f} ms   max {latency['max']:.0f} ms   "
        f"({latency['count']:,} at {plan.rate:g} changes a second)",
    )
    for what, milliseconds in outcome.failovers_ms.items():
        table.add_row(
            f"{what} killed",
            f"back after {milliseconds:.0f} ms, {outcome.moves.get(what, 0)} places in the slot table moved",
        )
    console.print(table)
    for held, what in checks(outcome):
        console.print(f"[green]held[/]    {what}" if held else f"[red bold]BROKEN[/]  {what}")
    for kind in ("missing", "stale", "vanished"):
        for service, register_id in getattr(outcome, kind)[:5]:
            console.print(f"        {kind}: {service} {register_id}")
    console.print(f"{seconds:.1f} s, seed {plan.seed}")
