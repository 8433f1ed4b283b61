"""``slotreeve spark tune balancer``: the options of one balancer swept on traces, and the best ones to paste."""

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
    opened_wheels,
    say,
    spark_session,
)
from slotreeve_cli.spark_outcome import print_outcome
from slotreeve_cli.spark_traces import TraceSource


def add_to(group: typer.Typer) -> None:
    """Add the commands."""
    tune = typer.Typer(help="Find options of plugins by evidence.", no_args_is_help=True)
    tune.callback()(_only_groups)
    tune.command(
        "balancer",
        epilog="Example: slotreeve spark tune balancer even --parameters moves_per_server=4..64,tolerance=0..2",
    )(tune_balancer)
    group.add_typer(tune, name="tune")


def _only_groups() -> None:
    """Find options of plugins by evidence."""


def tune_balancer(
    name: Annotated[str, typer.Argument(help="Name of the balancer.")],
    parameters: Annotated[
        str, typer.Option(help="Options to try, with commas: NAME=LOW..HIGH, NAME=VALUE|VALUE or NAME=VALUE.")
    ],
    assigner: Annotated[str, typer.Option(help="Name of the assigner; namesake: the balancer's own.")] = "namesake",
    traces: Annotated[
        str, typer.Option(help="generated, names of such with semicolons, a file, or recorded:WAREHOUSE.")
    ] = "generated",
    slots: Annotated[int, typer.Option(min=1, max=65_536, help="Number of slots.")] = 256,
    servers: Annotated[int, typer.Option(min=1, help="Servers at the beginning of generated traces.")] = 20,
    replicas: Annotated[int, typer.Option(min=1, max=7, help="Copies of each slot.")] = 2,
    round_seconds: Annotated[float, typer.Option(min=0.001, help="Trace seconds that a decision takes.")] = 1.0,
    seeds: SeedsOption = 1,
    even_within: EvenWithinOption = 0.1,
    weights: WeightsOption = WEIGHTS,
    out: OutOption = Path("tuned"),
    timeout: TimeoutOption = 120.0,
    memory: MemoryOption = 1024,
    wheels: WheelOption = [],  # noqa: B006 - typer copies it
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Play traces with every combination of a balancer's options; print the trade-off and a configuration to paste."""
    copies = opened_wheels(wheels)
    from slotreeve_spark.compare.balancers import BalancerQuestion
    from slotreeve_spark.compare.guard import CellLimits
    from slotreeve_spark.compare.trade_off import parse_weights
    from slotreeve_spark.compare.tuning import variants
    from slotreeve_spark.comparisons import Judgement, tune_balancer
    from slotreeve_spark.report.results import Directory

    source = TraceSource.of(traces)
    asked = BalancerQuestion(
        (name,),
        (assigner,),
        ((slots, servers),),
        replicas,
        seeds,
        source.given,
        source.kinds,
        round_seconds,
        CellLimits(timeout, memory),
        variants(parameters),
    )
    judgement = Judgement(even_within, parse_weights(weights), one_setting=True)
    directory = Directory.make(out, say=say)
    with spark_session(master, conf, copies) as session:
        outcome = tune_balancer(session, source.recorded(session, asked), directory, judgement)
        print_outcome(outcome, output, only=("trade_off",))
