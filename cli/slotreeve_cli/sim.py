"""``slotreeve sim run|sweep|coverage``: a whole cluster on virtual time, with faults by seed."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import Output, OutputOption

if TYPE_CHECKING:
    from slotreeve_simulator.plan import Cut
    from slotreeve_simulator.runner import Result
    from slotreeve_simulator.scenario import Scenario
    from slotreeve_simulator.shrink import Shrunk

ScenarioOption = Annotated[str, typer.Option("--scenario", help="Name of a built-in scenario, or a TOML file.")]
MinutesOption = Annotated[
    float | None, typer.Option(min=0.01, help="Virtual minutes under faults; default: the scenario's.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Simulate a whole cluster, deterministically: faults by seed, invariants after every event.",
        no_args_is_help=True,
    )
    group.command(
        "run",
        epilog="Examples: slotreeve sim run --seed 7 --minutes 2 --scenario mixed  |  "
        "slotreeve sim run --scenario incident.toml. Exit code 0 only if no invariant was broken and the symptom of a "
        "recorded incident was not seen.",
    )(run)
    group.command(
        "sweep",
        epilog="Example: slotreeve sim sweep --seeds 0..199 --jobs 2. Exit code 0 only if no invariant was broken.",
    )(sweep)
    group.command(
        "coverage",
        epilog="Example: slotreeve sim coverage --seeds 0..29. Exit code 0 only if every fault "
        "struck in every state that the scenario aims at.",
    )(coverage)
    app.add_typer(group, name="sim")


def run(
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
    minutes: MinutesOption = None,
    scenario: ScenarioOption = "mixed",
    only: Annotated[
        str | None, typer.Option("--only", help="Only these faults of the plan, by number: 3,17; '' for none.")
    ] = None,
    calls: Annotated[float, typer.Option(min=0, max=1, help="Only this share of the clients' calls.")] = 1.0,
    trace: Annotated[bool, typer.Option("--trace", help="Print the trace even if all is well.")] = False,
    shrink: Annotated[bool, typer.Option(help="Shrink a failing run to its shortest form.")] = True,
    shrink_runs: Annotated[
        int, typer.Option(min=1, help="Shrink with at most so many runs; a long incident needs more.")
    ] = 60,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run one seed. A failing one, or one that shows the symptom of a recorded incident, is shrunk: its shortest trace
    is printed, with the command that replays it."""
    from slotreeve_simulator.plan import Cut
    from slotreeve_simulator.runner import simulate
    from slotreeve_simulator.shrink import shrink as shrink_run

    loaded = _loaded(scenario, minutes)
    cut = Cut(_numbers(only), calls)
    began = time.perf_counter()
    result = simulate(loaded, seed, minutes, cut)
    took = time.perf_counter() - began
    shrunk = None
    if result.violation is not None and shrink and cut == Cut():
        shrunk = shrink_run(loaded, result, minutes, shrink_runs)
    again = [f"--minutes {minutes:g}"] if minutes is not None else []
    replay = _replay(scenario, seed, cut if shrunk is None else shrunk.cut, again)
    _report(result, took, shrunk, replay, output)
    if output is Output.TABLE and loaded.symptom is not None and result.violation is None:
        typer.echo(f"the symptom was not seen: no subscriber saw {loaded.symptom}")
    if output is Output.TABLE and trace and result.violation is None:
        typer.echo("\n".join(result.lines))
    if result.violation is not None:
        raise typer.Exit(1)


def sweep(
    seeds: Annotated[str, typer.Option("--seeds", help="From..to, both included; or one seed.")] = "0..199",
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    minutes: MinutesOption = None,
    scenario: ScenarioOption = "mixed",
    output: OutputOption = Output.TABLE,
) -> None:
    """Run many seeds, on several processors; failing ones are listed, each with the command that shows it in full."""
    from slotreeve_cli.printing import print_json, print_rows

    loaded = _loaded(scenario, minutes)
    wanted = _range(seeds)
    began = time.perf_counter()
    results = sorted(_swept(loaded, wanted, minutes, jobs), key=lambda result: result.seed)
    took = time.perf_counter() - began
    failing = [result for result in results if result.violation is not None]
    again = [f"--minutes {minutes:g}"] if minutes is not None else []
    rows: list[dict[str, object]] = [
        {"seed": r.seed, "violation": str(r.violation), "replay": _replay(scenario, r.seed, None, again)}
        for r in failing
    ]
    virtual = sum(result.virtual_seconds for result in results)
    if output is Output.JSON:
        print_json(
            {
                "scenario": loaded.name,
                "seeds": len(results),
                "failing": rows,
                "virtual_seconds": round(virtual, 1),
                "seconds": round(took, 1),
                "seeds_per_minute": round(len(results) * 60 / took, 1),
            }
        )
    else:
        print_rows(rows, output, title=f"{len(rows)} of {len(results)} seeds fail", empty="no invariant was broken")
        typer.echo(
            f"{len(results)} seeds, {virtual:,.0f} virtual seconds in {took:.1f} s: "
            f"{len(results) * 60 / took:,.0f} seeds a minute"
        )
    if failing:
        raise typer.Exit(1)


def coverage(
    seeds: Annotated[str, typer.Option("--seeds", help="From..to, both included; or one seed.")] = "0..29",
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    minutes: MinutesOption = None,
    scenario: ScenarioOption = "aimed",
    output: OutputOption = Output.TABLE,
) -> None:
    """Count how often each kind of fault struck in each state of the cluster. A run that breaks an invariant ends
    there."""
    from collections import Counter

    from slotreeve_simulator.coverage import empty_cells, table
    from slotreeve_simulator.states import ClusterState

    from slotreeve_cli.printing import print_json, print_rows

    loaded = _loaded(scenario, minutes)
    results = list(_swept(loaded, _range(seeds), minutes, jobs))
    struck = sum((result.struck for result in results), Counter())
    kinds, states = loaded.faults.kinds, loaded.faults.aims or tuple(ClusterState)
    rows, empty = table(struck, kinds, states), empty_cells(struck, kinds, states)
    if output is Output.JSON:
        print_json({"scenario": loaded.name, "seeds": len(results), "struck": rows, "empty": empty})
    else:
        print_rows(rows, output, title=f"{len(empty)} of {len(rows) * (len(rows[0]) - 1)} cells are empty")
        typer.echo("\n".join(empty))
    if empty:
        raise typer.Exit(1)


def _loaded(name: str, minutes: float | None) -> Scenario:
    from slotreeve_simulator.scenario import load_scenario

    scenario = load_scenario(name)
    if minutes is not None and scenario.recorded is not None:
        raise typer.BadParameter(f"--minutes {minutes:g}: {name} is a recorded incident, which lasts as recorded")
    return scenario


# --- running ---------------------------------------------------------------------------------------------------------


def _swept(scenario: Scenario, seeds: range, minutes: float | None, jobs: int) -> Iterator[Result]:
    """The results as they come; never more than a few tasks wait, so that an interrupt ends it soon."""
    from rich.console import Console
    from rich.progress import track
    from slotreeve_simulator.runner import simulate

    def completed(pool: ProcessPoolExecutor) -> Iterator[Result]:
        left = iter(seeds)
        under_way: set[Future[Result]] = set()
        while True:
            for seed in itertools.islice(left, 2 * jobs - len(under_way)):
                under_way.add(pool.submit(simulate, scenario, seed, minutes))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)

    with ProcessPoolExecutor(jobs) as pool:
        console = Console(stderr=True)
        yield from track(completed(pool), "simulating", total=len(seeds), console=console, transient=True)


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(number) for number in text.split(",") if number)
    except ValueError:
        raise typer.BadParameter(f"--only {text}: expected numbers of faults, e.g. --only 3,17") from None


def _range(text: str) -> range:
    first, dots, last = text.partition("..")
    try:
        seeds = range(int(first), int(last if dots else first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise typer.BadParameter(f"--seeds {text}: expected from..to, e.g. --seeds 0..199")
    return seeds


# --- printing --------------------------------------------------------------------------------------------------------


def _replay(scenario: str, seed: int, cut: Cut | None, more: list[str]) -> str:
    """The command that runs this again."""
    words = ["slotreeve sim run", f"--seed {seed}", f"--scenario {shlex.quote(scenario)}", *more]
    if cut is not None and cut.only is not None:
        words.append(f"--only '{','.join(map(str, cut.only))}'")
    if cut is not None and cut.calls < 1:
        words.append(f"--calls {cut.calls:g}")
    return " ".join(words)


def _report(result: Result, seconds: float, shrunk: Shrunk | None, replay: str, output: Output) -> None:
    from slotreeve_cli.printing import print_json

    shown = result if shrunk is None else shrunk.result
    if output is Output.JSON:
        print_json(
            {
                "seed": result.seed,
                "violation": None if result.violation is None else str(result.violation),
                "trace_hash": result.trace_hash,
                "virtual_seconds": round(result.virtual_seconds, 3),
                "seconds": round(seconds, 3),
                "events": result.events,
                "faults": len(result.faults),
                "kept_faults": len(shown.faults),
                "longest_heal_seconds": round(result.longest_heal_seconds, 3),
                "replay": replay,
                "trace": shown.lines if result.violation is not None else [],
            }
        )
        return
    if result.violation is not None:
        typer.echo("\n".join(shown.lines))
        if shrunk is not None:
            typer.echo(f"\nshrunk in {shrunk.runs} runs from {len(result.faults)} faults to {len(shown.faults)}")
        typer.echo(f"replay: {replay}")
    typer.echo(
        f"seed {result.seed}: {result.violation or 'no invariant was broken'}\n"
        f"{result.virtual_seconds:,.0f} virtual seconds in {seconds:.2f} s, {len(result.faults)} faults, "
        f"{result.events:,} events, all well after {result.longest_heal_seconds:.2f} s at the latest\n"
        f"trace hash {result.trace_hash}"
    )
