"""``slotreeve spark compare ...``: plugins compared by evidence, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotreeve_cli.options import Output, OutputOption
from slotreeve_cli.spark_options import (
    WEIGHTS,
    ConfOption,
    EvenWithinOption,
    MasterOption,
    MemoryOption,
    OutOption,
    SeedsOption,
    TimeoutOption,
    WeightsOption,
    WheelOption,
    names,
    numbers,
    opened_wheels,
    say,
    spark_session,
)
from slotreeve_cli.spark_outcome import print_outcome
from slotreeve_cli.spark_traces import TraceSource


def add_to(group: typer.Typer) -> None:
    """Add the commands."""
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
    copies = opened_wheels(wheels)
    from slotreeve_spark.compare.slot_functions import SlotFunctionQuestion
    from slotreeve_spark.report.results import Directory
    from slotreeve_spark.slot_function_comparison import compare_slot_functions as compare

    asked = SlotFunctionQuestion(names(functions, "--functions"), tuple(numbers(slots, "--slots")), timeout)
    directory = Directory.make(out, say=say)
    with spark_session(master, conf, copies) as session:
        print_outcome(compare(session, keys, column, asked, directory), output)


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
    even_within: EvenWithinOption = 0.1,
    weights: WeightsOption = WEIGHTS,
    out: OutOption = Path("balancers"),
    timeout: TimeoutOption = 120.0,
    memory: MemoryOption = 1024,
    wheels: WheelOption = [],  # noqa: B006
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """What balancers do when servers join and leave: moves, copies, time, spread, gaps."""
    copies = opened_wheels(wheels)
    from slotreeve_spark.compare.balancers import BalancerQuestion
    from slotreeve_spark.compare.guard import CellLimits
    from slotreeve_spark.compare.trade_off import parse_weights
    from slotreeve_spark.comparisons import Judgement
    from slotreeve_spark.comparisons import compare_balancers as compare
    from slotreeve_spark.report.results import Directory

    source = TraceSource.of(traces)
    asked = BalancerQuestion(
        names(balancers, "--balancers"),
        names(assigners, "--assigners"),
        tuple((slots, number) for number in numbers(servers, "--servers", least=2)),
        replicas,
        seeds,
        source.given,
        source.kinds,
        round_seconds,
        CellLimits(timeout, memory),
    )
    judgement = Judgement(even_within, parse_weights(weights))
    directory = Directory.make(out, say=say)
    with spark_session(master, conf, copies) as session:
        asked = source.recorded(session, asked)
        print_outcome(compare(session, asked, directory, judgement), output)


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
    memory: MemoryOption = 1024,
    wheels: WheelOption = [],  # noqa: B006
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """How long elections leave a cluster without a leader, in seeded simulation on virtual time."""
    copies = opened_wheels(wheels)
    from slotreeve_spark.compare.elections import ElectionQuestion
    from slotreeve_spark.compare.guard import CellLimits
    from slotreeve_spark.comparisons import compare_elections as compare
    from slotreeve_spark.report.results import Directory

    asked = ElectionQuestion(
        names(backends, "--backends"),
        tuple(numbers(nodes, "--nodes")),
        names(scenarios, "--scenarios"),
        seeds,
        rounds,
        limits=CellLimits(timeout, memory),
    )
    directory = Directory.make(out, say=say)
    with spark_session(master, conf, copies) as session:
        print_outcome(compare(session, asked, directory), output)
