"""``slotreeve bench``: what the registry does on this machine, in figures."""

from __future__ import annotations

import os
import platform
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from slotreeve_client.tools import run_async

from slotreeve_cli.options import Output, OutputOption, SetOption, dotted

if TYPE_CHECKING:
    from slotreeve_harness.processes import LocalCluster


class What(StrEnum):
    """The measurements."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    FANOUT = "fanout"
    LOOKUPS = "lookups"
    FAILOVER = "failover"
    RESTART = "restart"
    DEPARTURE = "departure"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "bench",
        epilog="Examples: slotreeve bench  |  slotreeve bench latency --rate 500 --seconds 30  |  "
        "slotreeve bench -o json > figures.json",
    )(bench)


def bench(
    what: Annotated[list[What] | None, typer.Argument(help="Which measurements; default: all.")] = None,
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
    output: OutputOption = Output.TABLE,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Start a cluster of processes and measure it: publish -> callback latency at a fixed rate, publishes a second
    and memory a publisher, one change to many subscribers, lookups, fail-over,
    a rolling restart under load. Each gets a fresh cluster."""
    import tempfile

    from slotreeve_bench.departure import measure_departure
    from slotreeve_bench.failover import measure_failover
    from slotreeve_bench.fanout import measure_fanout
    from slotreeve_bench.latency import measure_latency
    from slotreeve_bench.lookups import measure_lookups
    from slotreeve_bench.restart import measure_rolling_restart
    from slotreeve_bench.throughput import measure_throughput
    from slotreeve_harness.processes import LocalCluster

    from slotreeve_cli.printing import print_json

    measurements: dict[What, Callable[[LocalCluster], Awaitable[dict[str, object]]]] = {
        What.LATENCY: lambda cluster: measure_latency(cluster, rate, seconds),
        What.THROUGHPUT: lambda cluster: measure_throughput(cluster, publishers, payload),
        What.FANOUT: lambda cluster: measure_fanout(cluster, subscribers),
        What.LOOKUPS: measure_lookups,
        What.FAILOVER: lambda cluster: measure_failover(cluster, kills),
        What.RESTART: measure_rolling_restart,
        What.DEPARTURE: lambda cluster: measure_departure(cluster, publishers),
    }
    results: dict[str, object] = {
        "machine": {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "cluster": {"meta": meta, "data": data, "session": session, "settings": dotted(settings)},
    }
    for name in what or list(What):
        typer.echo(f"measuring {name} ...", err=True)
        with tempfile.TemporaryDirectory(prefix="slotreeve-bench-") as directory:
            cluster = LocalCluster(Path(directory), meta, data, session, dotted(settings))
            results[name] = result = run_async(_measure(cluster, measurements[name]))
        if output is Output.TABLE:
            _print_result(name, result)
    if output is Output.JSON:
        print_json(results)


async def _measure(
    cluster: LocalCluster, measurement: Callable[[LocalCluster], Awaitable[dict[str, object]]]
) -> dict[str, object]:
    from slotreeve_client.tools import open_transport

    transport = open_transport(cluster.transport)
    try:
        with cluster:
            await cluster.ready(transport)
            return await measurement(cluster)
    finally:
        await transport.close()


def _print_result(name: str, result: dict[str, object]) -> None:
    from slotreeve_cli.printing import print_rows

    rows: list[dict[str, object]] = [
        {"figure": key.replace("_", " "), "value": _flat(value)} for key, value in result.items()
    ]
    print_rows(rows, Output.TABLE, title=f"[bold]{name}[/]")


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return "   ".join(f"{key} {number:,}" for key, number in value.items())
    if isinstance(value, list):
        return ", ".join(f"{number:,}" for number in value)
    return f"{value:,}" if isinstance(value, int | float) else str(value)
