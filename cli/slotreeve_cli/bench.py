"""``slotreeve bench``: what the registry does on this machine, in figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer
from slotreeve_harness.measurements import Measurement

from slotreeve_cli.options import Output, OutputOption, SetOption, dotted


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "bench",
        epilog="Examples: slotreeve bench  |  slotreeve bench latency --rate 500 --seconds 30  |  "
        "slotreeve bench -o json > figures.json",
    )(bench)


def bench(
    what: Annotated[list[Measurement] | None, typer.Argument(help="Which measurements; default: all.")] = None,
    meta: Annotated[int, typer.Option(min=1, help="Number of meta servers.")] = 3,
    data: Annotated[int, typer.Option(min=1, help="Number of data servers.")] = 3,
    session: Annotated[int, typer.Option(min=1, help="Number of session servers.")] = 2,
    rate: Annotated[float, typer.Option(min=1, help="latency: changes a second.")] = 100.0,
    seconds: Annotated[float, typer.Option(min=1, help="latency: how long.")] = 20.0,
    publishers: Annotated[
        int, typer.Option(min=1_000, help="throughput, departure: how many registrations.")
    ] = 100_000,
    payload: Annotated[int, typer.Option(min=1, help="throughput: bytes published by each.")] = 200,
    subscribers: Annotated[int, typer.Option(min=4, help="fanout: connections, spread over four processes.")] = 1_000,
    kills: Annotated[int, typer.Option(min=1, help="failover: how often each kind of process is killed.")] = 10,
    clients: Annotated[int, typer.Option(min=1, help="herd: how many clients.")] = 10_000,
    registrations: Annotated[int, typer.Option(min=1, help="herd: registrations of each client.")] = 10,
    subscriptions: Annotated[int, typer.Option(min=0, help="herd: subscriptions of each client.")] = 10,
    runs: Annotated[int, typer.Option(min=1, help="busy: runs beside each number of busy loops.")] = 5,
    instances: Annotated[int, typer.Option(min=2, help="large: instances of the service.")] = 300_000,
    light: Annotated[
        int, typer.Option(min=0, help="large: subscribers with digests instead of copies, beside three real ones.")
    ] = 1_000,
    wide: Annotated[int, typer.Option(min=0, help="large: subscriptions of the one client at the end.")] = 100_000,
    hostile: Annotated[int, typer.Option(min=1, help="hostile: connections without a key.")] = 200,
    keys: Annotated[
        bool, typer.Option("--keys/--no-keys", help="Every process has a key; hostile always, busy never.")
    ] = False,
    output: OutputOption = Output.TABLE,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Start a cluster of processes and measure it: publish -> callback latency at a fixed rate, publishes a second
    and memory a publisher, one change to many subscribers, lookups, fail-over, a rolling restart under load, the death
    of one very large client, and of a session server with very many clients, the demonstration beside busy loops,
    one service with very many instances, and hostile connections beside a cluster with keys. Each gets a fresh
    cluster."""
    from slotreeve_bench.busy import BusyPlan
    from slotreeve_bench.herd import HerdPlan
    from slotreeve_bench.hostile import HostilePlan
    from slotreeve_bench.large import LargePlan
    from slotreeve_bench.suite import BenchPlan, measure
    from slotreeve_client.tools import run_async
    from slotreeve_harness.processes import ClusterSize

    from slotreeve_cli.printing import print_json

    size = ClusterSize(meta, data, session)
    herd = HerdPlan(clients, registrations, subscriptions)
    plan = BenchPlan(
        size,
        rate,
        seconds,
        publishers,
        payload,
        subscribers,
        kills,
        herd,
        BusyPlan(runs),
        LargePlan(instances, light=light, subscriptions=wide),
        dotted(settings),
        keys,
        HostilePlan(hostile),
    )
    results = plan.described()

    def report(step: str) -> None:
        typer.echo(f"  {step}", err=True)

    for measurement in what or list(Measurement):
        typer.echo(f"measuring {measurement} ...", err=True)
        results[measurement] = figures = run_async(measure(measurement, plan, report))
        if output is Output.TABLE:
            print_figures(measurement, figures)
    if output is Output.JSON:
        print_json(results)


def print_figures(name: str, figures: Mapping[str, object]) -> None:
    """Print the figures of one measurement as a table."""
    from slotreeve_cli.printing import print_rows

    rows: list[dict[str, object]] = [{"figure": figure, "value": value} for figure, value in _rows("", figures)]
    print_rows(rows, Output.TABLE, title=f"[bold]{name}[/]")


def _rows(figure: str, value: object) -> Iterator[tuple[str, str]]:
    """A row for each figure. Percentiles and the like, which are numbers by name, share one."""
    if isinstance(value, Mapping) and (not figure or any(isinstance(inner, Mapping) for inner in value.values())):
        for key, inner in value.items():
            yield from _rows(f"{figure} {key.replace('_', ' ')}".strip(), inner)
    elif isinstance(value, Mapping):
        yield figure, "   ".join(f"{key} {_text(number)}" for key, number in value.items())
    elif isinstance(value, list):
        yield figure, ", ".join(map(_text, value))
    else:
        yield figure, _text(value)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
