"""``slotreeve demo``: the main job on real input, with servers killed while it goes on."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import Output, OutputOption

if TYPE_CHECKING:
    from rich.progress import Progress
    from slotreeve_demo.stage import DemoOutcome, DemoPlan
    from slotreeve_harness.processes import LocalCluster


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "demo",
        epilog="Examples: slotreeve demo  |  slotreeve demo --keep  |  slotreeve demo --names services.txt -o json. "
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
    directory: Annotated[
        Path | None, typer.Option(help="Keep logs and state here; default: only where a check fails, and named then.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the cluster at the end, to look at it, until Ctrl-C.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Start a cluster of processes, publish every module and class of this Python, and subscribe to them. Kill a meta
    leader, a data server and a session server meanwhile. Then compare what every subscriber sees, and what a gateway
    shows over REST, with what is published."""
    from slotreeve_client.tools import run_async
    from slotreeve_demo.performance import perform, service_names
    from slotreeve_demo.report import all_held, as_json
    from slotreeve_demo.stage import DemoPlan
    from slotreeve_harness.processes import ClusterSize

    from slotreeve_cli.printing import print_json

    chosen = seed if seed is not None else random.SystemRandom().getrandbits(32)
    plan, size = DemoPlan(publishers, subscribers, rate, chosen), ClusterSize(meta, data, session, gateway=1)
    began = time.monotonic()
    with _progress_bars() as bars:
        lines = _ProgressLines(bars)

        def show(outcome: DemoOutcome) -> None:
            bars.stop()
            seconds = time.monotonic() - began
            if output is Output.JSON:
                print_json(as_json(outcome, plan, seconds))
            else:
                _print_summary(outcome, plan, seconds)

        async def kept(outcome: DemoOutcome, cluster: LocalCluster) -> None:
            show(outcome)
            await _until_stopped(cluster)

        services = service_names(names, lines)
        outcome = run_async(perform(services, plan, size, lines, directory, kept if keep else None))
    if not keep:
        show(outcome)
    if not all_held(outcome):
        raise typer.Exit(1)


async def _until_stopped(cluster: LocalCluster) -> None:
    """Say where to look at the cluster, and wait for Ctrl-C."""
    from slotreeve_cli.run import stop_requested

    asked = " ".join(f"{name}={value}" for name, value in cluster.tool_environment.items())
    typer.echo(
        f"the cluster goes on until Ctrl-C; look at it: http://{cluster.gateway_addresses[0]}/ui/\n"
        f"  export {asked}\n"
        "  slotreeve status; slotreeve top; slotreeve events",
        err=True,
    )
    await stop_requested(until_eof=False).wait()


def _progress_bars() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), refresh_per_second=8)


class _ProgressLines:
    """Turns reports of progress into one line for each step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._step = ""

    def __call__(self, step: str, done: int, total: int) -> None:
        tasks = self._progress.tasks
        if step == self._step:
            self._progress.update(tasks[-1].id, completed=done)
            return
        if self._step:
            last = tasks[-1]
            self._progress.update(last.id, total=last.total or 1, completed=last.total or 1)
        self._step = step
        self._progress.add_task(step, total=total or None)


def _print_summary(outcome: DemoOutcome, plan: DemoPlan, seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table
    from slotreeve_demo.report import checks, differences, figures

    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for what, figure in figures(outcome, plan):
        table.add_row(what, figure)
    console.print(table)
    for check in checks(outcome):
        console.print(f"[green]held[/]    {check.what}" if check.held else f"[red bold]BROKEN[/]  {check.what}")
    for line in differences(outcome):
        console.print(f"        {line}")
    if outcome.directory:
        console.print(f"logs and state are in {outcome.directory}")
    console.print(f"{seconds:.1f} s, seed {plan.seed}")
