"""``slotreeve plan assign|balance|converge``: dry runs of assigners and balancers on scenarios from a file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TextIO, TypeVar

import typer

from slotreeve_cli.options import dotted

if TYPE_CHECKING:
    from slotreeve.offers import Port
    from slotreeve.ports import Assigner, Balancer

    from slotreeve_cli.scenarios import PlanScenario

P = TypeVar("P")

EPILOG = """Each line of FILE is a JSON object: slots, replicas, servers (names, or objects with name, zone, weight),
initial (null, or rows \\[slot, leader, \\[followers]]), or what slotreeve slots -o json has printed. Each line out:
result, moves, steps, spread."""

FileArgument = Annotated[str, typer.Argument(metavar="FILE|-", help="Scenarios, one JSON object a line; - reads them.")]
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
    group.command("converge", epilog=f"Example: slotreeve plan converge --plugin even tables.jsonl. {EPILOG}")(converge)
    app.add_typer(group, name="plan")


def assign(file: FileArgument, plugin: PluginOption = "default", settings: PluginSetOption = []) -> None:  # noqa: B006
    """Fill slots that lack a leader or followers."""
    from slotreeve_cli import scenarios
    from slotreeve_cli.printing import print_json

    chosen = _assigner(plugin, dotted(settings))
    for scenario in _scenarios(file):
        print_json(scenarios.assign(scenario, chosen.built_for(scenario)))


def balance(file: FileArgument, plugin: PluginOption = "default", settings: PluginSetOption = []) -> None:  # noqa: B006
    """One step of a balancer."""
    from slotreeve_cli import scenarios
    from slotreeve_cli.printing import print_json

    chosen = _balancer(plugin, dotted(settings))
    for scenario in _scenarios(file):
        print_json(scenarios.balance(scenario, chosen.built_for(scenario)))


def converge(
    file: FileArgument,
    plugin: PluginOption = "default",
    assigner: AssignerOption = None,
    settings: PluginSetOption = [],  # noqa: B006
) -> None:
    """Balance until the balancer is done; assign first if a slot lacks a leader or follower."""
    from slotreeve_cli import scenarios
    from slotreeve_cli.printing import print_json

    balancers, assigners = _balancer(plugin, dotted(settings)), _assigner(assigner or _namesake(plugin), {})
    for scenario in _scenarios(file):
        print_json(scenarios.converge(scenario, assigners.built_for(scenario), balancers.built_for(scenario)))


def _scenarios(file: str) -> Iterator[PlanScenario]:
    from slotreeve_cli.scenarios import read_scenarios

    with _opened(file) as (name, lines):
        yield from read_scenarios(name, lines)


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
