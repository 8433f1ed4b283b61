"""``slotreeve spark seed``: a recorded incident as a scenario of the simulator."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import Output, OutputOption
from slotreeve_cli.spark_options import ConfOption, MasterOption, must_be_fit, spark_session

if TYPE_CHECKING:
    from slotreeve_spark.seed.scenario import Seed

MOST_SHOWN = 20


def add_to(group: typer.Typer) -> None:
    """Add the command."""
    group.command(
        "seed",
        epilog="Example: slotreeve spark seed warehouse --from 2026-11-21T12:00:00Z --to 2026-11-21T12:01:00Z "
        "--out incident.toml, then slotreeve sim run --scenario incident.toml",
    )(seed)


def seed(
    warehouse: Annotated[str, typer.Argument(help="Directory of the pipeline's tables: a path, s3a://..., hdfs://...")],
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Begin; ISO 8601, UTC unless a zone is given, or ms.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="End, at most an hour later.")],
    out: Annotated[Path, typer.Option("--out", help="The scenario file to write.")] = Path("incident.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
    service: Annotated[
        str | None, typer.Option(help="The symptom is its loss; default: the service that lost most.")
    ] = None,
    services: Annotated[int, typer.Option(min=1, max=1_000, help="Keep so many services.")] = 30,
    clients: Annotated[int, typer.Option(min=1, max=990, help="Keep so many clients.")] = 40,
    registrations: Annotated[int, typer.Option(min=1, max=20_000, help="Keep so many registrations.")] = 2_000,
    calls: Annotated[int, typer.Option(min=0, max=20_000, help="Keep so many calls of the churn.")] = 2_000,
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    output: OutputOption = Output.TABLE,
) -> None:
    """Write the joins, deaths and churn that were recorded between two moments as a scenario that the simulator plays,
    with the loss of a service as the symptom to look for. What did not fit is listed."""
    must_be_fit()
    from slotreeve.errors import ConfigError, StorageError
    from slotreeve.model.data_info import DataInfo
    from slotreeve_simulator.scenario_text import as_toml
    from slotreeve_spark.pipeline.history import instant
    from slotreeve_spark.pipeline.warehouse import Warehouse
    from slotreeve_spark.seed.collect import recorded_incident
    from slotreeve_spark.seed.facts import SeedLimits
    from slotreeve_spark.seed.scenario import must_be_a_span, seed_of

    store, span = Warehouse.existing(warehouse), must_be_a_span(instant(from_), instant(to))
    if out.exists() and not force:
        raise ConfigError(f"{out}: there is such a file; give another --out, or --force to replace it")
    if not out.absolute().parent.is_dir():
        raise StorageError(f"{out}: cannot be written: there is no such directory; choose another --out")
    limits = SeedLimits(services, clients, registrations, calls)
    wanted = None if service is None else DataInfo.parse(service).id
    with spark_session(master, conf) as session:
        typer.echo(f"reading what was recorded until {to}", err=True)
        incident = recorded_incident(session, store, span, limits, wanted)
    found = seed_of(incident, limits, wanted)
    play = f"slotreeve sim run --scenario {shlex.quote(str(out))}"
    about = [f"An incident, recorded from {incident.began} to {incident.ended}.", f"Play it: {play}"]
    try:
        out.write_text(as_toml(found.scenario, [*about, *(f"Left out: {line}" for line in found.left_out)]))
    except OSError as error:
        raise StorageError(f"{out}: cannot be written: {error.strerror}") from None
    print_seed(found, out, play, output)


def print_seed(found: Seed, out: Path, play: str, output: Output) -> None:
    """Print what stands in the file: as JSON everything that happened, else the first actions in a table.

    Args:
        out: the file.
        play: the command that plays it.
    """
    from slotreeve_spark.report.terminal import fitted

    from slotreeve_cli.printing import print_json
    from slotreeve_cli.spark_outcome import print_line, width

    scenario = found.scenario
    assert scenario.recorded is not None
    actions = scenario.recorded.actions
    if output is Output.JSON:
        print_json(
            {
                "scenario": str(out),
                "actions": [action.model_dump(mode="json") for action in actions],
                "clients": len(scenario.recorded.clients),
                "services": len(scenario.recorded.services),
                "symptom": None if scenario.symptom is None else scenario.symptom.model_dump(mode="json"),
                "left_out": list(found.left_out),
                "play": play,
            }
        )
        return
    rows = [
        {"at s": f"{at:.3f}", "what": str(kind), "process": node, "recorded as": name, "for s": f"{seconds:.3f}"}
        for at, kind, node, name, seconds in ((a.at, a.kind, a.node, a.recorded_as, a.seconds) for a in actions)
    ]
    typer.echo("\n".join(fitted(rows[:MOST_SHOWN], width())) if rows else "no server or client joined or died")
    if len(actions) > MOST_SHOWN:
        typer.echo(f"... and {len(actions) - MOST_SHOWN:,} more in {out}")
    typer.echo()
    if scenario.symptom is None:
        print_line("symptom: none, nothing expired; the simulator checks its invariants only")
    else:
        print_line(f"symptom: subscribers see {scenario.symptom}")
    for line in found.left_out:
        print_line(f"left out: {line}")
    print_line(f"play it: {play}")
