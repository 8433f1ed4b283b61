"""``slotreeve doctor``: whether this machine and its configuration are fit for servers, and what to do where not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotreeve_cli.options import Output, OutputOption, SetOption, is_terminal, read_configuration

if TYPE_CHECKING:
    from slotreeve_cli.doctor_findings import Diagnosis
    from slotreeve_cli.doctor_patient import Case, Patient

USUAL_SECONDS, LONG_SECONDS = 5.0, 15.0
CLEAR_LINE = "\r\x1b[K"

ConfigsOption = Annotated[
    list[Path],
    typer.Option("--config", "-c", envvar="SLOTREEVE_CONFIG", help="Configuration file (TOML); repeatable."),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog="Examples: slotreeve doctor  |  slotreeve doctor -c cluster.toml -o json")(doctor)


@dataclass(frozen=True)
class Examination:
    """One thing that is looked at.

    Attributes:
        what: its name while it goes on, and where it cannot be looked at.
        look: returns what is seen.
        judge: makes findings of that. Pure.
        seconds: so long it may take.
    """

    what: str
    look: Callable[[Patient], Awaitable[Any]]
    judge: Callable[[Any], list[Diagnosis]]
    seconds: float = USUAL_SECONDS


def checks() -> Sequence[Examination]:
    """All of them, in their order. A new one is one entry here."""
    from slotreeve.ports.transport import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION

    from slotreeve_cli import doctor_findings as findings
    from slotreeve_cli import doctor_network as network
    from slotreeve_cli import doctor_probes as probes

    def of_servers(seen: Any) -> list[Diagnosis]:
        return findings.of_servers(seen, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION)

    return (
        Examination("configuration", probes.look_at_configurations, findings.of_configurations, LONG_SECONDS),
        Examination("plugins", probes.look_at_plugins, findings.of_plugins),
        Examination("ports", network.look_at_ports, findings.of_ports, LONG_SECONDS),
        Examination("clock", network.look_at_clock, findings.of_clock),
        Examination("directories", probes.look_at_directories, findings.of_directories),
        Examination("store of the election", probes.look_at_stores, findings.of_stores, LONG_SECONDS),
        Examination("versions", probes.look_at_versions, findings.of_versions),
        Examination("servers", network.look_at_servers, of_servers, LONG_SECONDS),
        Examination("open files", probes.look_at_files, findings.of_files),
        Examination("Java for Spark", probes.look_at_spark, findings.of_spark, LONG_SECONDS),
    )


def doctor(
    config: ConfigsOption = [],  # noqa: B006 - typer copies it
    settings: SetOption = [],  # noqa: B006
    output: OutputOption = Output.TABLE,
) -> None:
    """Look whether this machine and its configuration are fit for servers, and say how to mend what is not.
    Configuration, plugins, ports, clocks, directories, the election's database, versions, servers that can be reached.
    Nothing is changed. Exit code 1 if something fails; warnings do not count."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.doctor_findings import Verdict

    found = run_async(examine(patient_of(config, settings), checks(), _progress))
    if is_terminal():
        sys.stderr.write(CLEAR_LINE)
    _print(found, output)
    if any(finding.verdict is Verdict.FAIL for finding in found):
        raise typer.Exit(1)


def patient_of(files: Sequence[Path], settings: list[str]) -> Patient:
    """The configurations, read one by one, and the installed plugins."""
    from slotreeve.catalogue import Catalogue
    from slotreeve.errors import PluginError

    from slotreeve_cli.doctor_patient import Patient

    named: Sequence[Path | None] = files or [None]
    patient = Patient([_case(file, settings) for file in named])
    try:
        patient.catalogue = Catalogue.load()
    except PluginError as error:
        patient.problem = f"{error.code}: {error}"
    return patient


def _case(file: Path | None, settings: list[str]) -> Case:
    from slotreeve.errors import ConfigError

    from slotreeve_cli.doctor_patient import Case

    name = "of defaults, environment and flags" if file is None else str(file)
    try:
        return Case(name, read_configuration(file, settings))
    except ConfigError as error:
        return Case(name, problem=f"{error.code}: {error}")


async def examine(patient: Patient, every: Sequence[Examination], tell: Callable[[str], None]) -> list[Diagnosis]:
    """Do these checks one after the other; tell the name of each before it begins. One that takes too long or cannot be
    done is a finding, too."""
    from slotreeve_cli.doctor_findings import Diagnosis, Verdict

    found: list[Diagnosis] = []
    for check in every:
        tell(check.what)
        try:
            async with asyncio.timeout(check.seconds):
                seen = await check.look(patient)
            found += check.judge(seen)
        except TimeoutError:
            cure = "Look at the disk, the network or the program that it waits for, and try again."
            found.append(Diagnosis(check.what, Verdict.FAIL, f"could not be seen within {check.seconds:g} s", cure))
        except Exception as error:  # noqa: BLE001 - the other checks are still worth to be done
            text = f"could not be looked at: {type(error).__name__}: {error}"
            found.append(Diagnosis(check.what, Verdict.WARN, text, "Please report this line: the check has a defect."))
    return found


def _progress(what: str) -> None:
    if is_terminal():
        sys.stderr.write(f"{CLEAR_LINE}looking at: {what}")
        sys.stderr.flush()


def _print(found: Sequence[Diagnosis], output: Output) -> None:
    from slotreeve_cli.doctor_findings import Verdict
    from slotreeve_cli.printing import as_text, print_json, print_rows

    rows: list[dict[str, object]] = [
        {"verdict": str(each.verdict), "check": each.what, "found": each.found} for each in found
    ]
    if output is Output.JSON:
        failed = any(each.verdict is Verdict.FAIL for each in found)
        print_json(
            {"fit": not failed, "checks": [row | {"cure": each.cure} for row, each in zip(rows, found, strict=True)]}
        )
        return
    print_rows(rows, output)
    cures = [f"{each.verdict}  {as_text(each.what)}: {as_text(each.cure)}" for each in found if each.cure]
    if cures:
        typer.echo("\n" + "\n".join(cures))
