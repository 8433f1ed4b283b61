"""``slotreeve plan assign|balance|converge``: dry runs of assigners and balancers on scenarios from a file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TextIO, TypeVar

import typer

from slotreeve_cli.options import DEFAULT_META, ClusterOption, MetaOption, Output, OutputOption, dotted

if TYPE_CHECKING:
    from slotreeve.offers import Port
    from slotreeve.ports import Assigner, Balancer

    from slotreeve_cli.scenarios import PlanOutcome, PlanScenario

P = TypeVar("P")

EPILOG = """Each line of FILE is a JSON object: slots, replicas, servers (names, or objects with name, zone, weight),
initial (null, or rows \\[slot, leader, \\[followers]]), or what slotreeve slots -o json has printed. Each line out:
result, moves, steps, spread. Nothing is moved."""

FileArgument = Annotated[
    str, typer.Argument(metavar="[FILE|-]", help="Scenarios, one JSON object a line; - reads them.", show_default=False)
]
LiveOption = Annotated[bool, typer.Option("--live", help="Instead of FILE: the table of the running cluster.")]
PluginOption = Annotated[str, typer.Option("--plugin", "-p", help="Name of the assigner or balancer.")]
AssignerOption = Annotated[
    str | None,
    typer.Option("--assigner", help="For what is unassigned at first; else the plugin's namesake, or default."),
]
PluginSetOption = Annotated[list[str], typer.Option("--set", help="One of the plugin's own settings, key=value.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Dry runs of assigners and balancers: what would move, and why.", no_args_is_help=True)
    group.command("assign", epilog=f"Example: slotreeve plan assign --plugin even tables.jsonl. {EPILOG}")(assign)
    group.command("balance", epilog=f"Example: slotreeve plan balance --plugin even tables.jsonl. {EPILOG}")(balance)
    group.command(
        "converge",
        epilog="Examples: slotreeve plan converge --plugin even tables.jsonl  |  "
        f"slotreeve plan converge --plugin even --live -o table. {EPILOG}",
    )(converge)
    app.add_typer(group, name="plan")


def assign(
    file: FileArgument = "",
    plugin: PluginOption = "default",
    settings: PluginSetOption = [],  # noqa: B006
    live: LiveOption = False,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.JSON,
) -> None:
    """Fill slots that lack a leader or followers."""
    from slotreeve_cli import scenarios

    chosen = _assigner(plugin, dotted(settings))
    for scenario in _scenarios(file, meta if live else None, cluster):
        _print(scenarios.assign(scenario, chosen.built_for(scenario)), output)


def balance(
    file: FileArgument = "",
    plugin: PluginOption = "default",
    settings: PluginSetOption = [],  # noqa: B006
    live: LiveOption = False,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.JSON,
) -> None:
    """One step of a balancer."""
    from slotreeve_cli import scenarios

    chosen = _balancer(plugin, dotted(settings))
    for scenario in _scenarios(file, meta if live else None, cluster):
        _print(scenarios.balance(scenario, chosen.built_for(scenario)), output)


def converge(
    file: FileArgument = "",
    plugin: PluginOption = "default",
    assigner: AssignerOption = None,
    settings: PluginSetOption = [],  # noqa: B006
    live: LiveOption = False,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.JSON,
) -> None:
    """Balance until the balancer is done; assign first if a slot lacks a leader or follower."""
    from slotreeve_cli import scenarios

    balancers, assigners = _balancer(plugin, dotted(settings)), _assigner(assigner or _namesake(plugin), {})
    for scenario in _scenarios(file, meta if live else None, cluster):
        _print(scenarios.converge(scenario, assigners.built_for(scenario), balancers.built_for(scenario)), output)


def _print(outcome: PlanOutcome, output: Output) -> None:
    from slotreeve_cli.printing import print_json, print_rows

    if output is Output.JSON:
        print_json(outcome)
        return
    moves = outcome["moves"]
    least_led, most_led, least_followed, most_followed = outcome["spread"]
    print_rows(moves, output, empty="nothing is to be moved")
    typer.echo(
        f"\n{len(moves)} moves in {outcome['steps']} steps; then each server leads {least_led} to {most_led} slots "
        f"and follows {least_followed} to {most_followed}"
    )


def _scenarios(file: str, live: list[str] | None, cluster: str) -> Iterator[PlanScenario]:
    """Those of a file, or the table of the cluster of the meta servers ``live``."""
    from slotreeve_cli.scenarios import read_scenarios

    if bool(file) == (live is not None):
        raise typer.BadParameter("expected a FILE of scenarios (- for standard input), or --live")
    if live is None:
        with _opened(file) as (name, lines):
            yield from read_scenarios(name, lines)
        return
    import msgspec
    from slotreeve_client.reports import table_report
    from slotreeve_client.tools import run_async

    from slotreeve_cli.status import committed_view

    document = table_report(run_async(committed_view(live, cluster)))
    yield from read_scenarios(f"the cluster {cluster!r}", [msgspec.json.encode(document).decode()])


@contextlib.contextmanager
def _opened(file: str) -> Iterator[tuple[str, TextIO]]:
    """Standard input for ``-``. Raises ConfigError if the file cannot be read."""
    from slotreeve.errors import ConfigError

    if file == "-":
        yield "standard input", sys.stdin
        return
    try:
        with Path(file).open(encoding="utf-8") as lines:
            yield file, lines
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}; expected a text file of JSON lines") from None


class _Plugin(Generic[P]):
    """The plugin of a name, built once for each number of slots."""

    def __init__(self, port: Port, protocol: type[P], name: str, settings: Mapping[str, object]) -> None:
        self._port, self._protocol, self._name, self._settings = port, protocol, name, settings
        self._built: dict[int, P] = {}

    def built_for(self, scenario: PlanScenario) -> P:
        slots = len(scenario.table.slots)
        if slots not in self._built:
            built = build_unattached(self._port, self._name, slots, self._settings)
            assert isinstance(built, self._protocol)
            self._built[slots] = built
        return self._built[slots]


def _assigner(name: str, settings: Mapping[str, object]) -> _Plugin[Assigner]:
    from slotreeve.offers import Port
    from slotreeve.ports import Assigner

    return _Plugin(Port.ASSIGNER, Assigner, name, settings)  # type: ignore[type-abstract]


def _namesake(balancer: str) -> str:
    """The assigner of the balancer's name if there is one, else ``default``."""
    from slotreeve.catalogue import Catalogue
    from slotreeve.offers import Port

    return balancer if balancer in Catalogue.load().names(Port.ASSIGNER) else "default"


def _balancer(name: str, settings: Mapping[str, object]) -> _Plugin[Balancer]:
    from slotreeve.offers import Port
    from slotreeve.ports import Balancer

    return _Plugin(Port.BALANCER, Balancer, name, settings)  # type: ignore[type-abstract]


def build_unattached(port: Port, name: str, slots: int, settings: Mapping[str, object] | None = None) -> object:
    """The plugin called ``name``, built with its own ``settings`` for no cluster and no node: for dry runs.

    Raises:
        PluginError: there is no such plugin, or a setting does not fit.
    """
    from slotreeve.catalogue import build_plugin
    from slotreeve_client.tools import run_async, tool_context

    async def build() -> object:  # the clock of a context is that of a running event loop
        return build_plugin(port, name, tool_context(slots), settings)

    return run_async(build())
