"""The command line. Every command's own imports stand inside it, so that ``--version`` and ``--help`` are quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from inspect import getdoc
from types import ModuleType
from typing import Annotated

import typer

from slotreeve_cli import (
    admin,
    audience,
    bench,
    chaos,
    cluster,
    config,
    demo,
    dev,
    drain,
    election,
    explain,
    gateway,
    lookups,
    override,
    past,
    plan,
    plugins,
    provide,
    publish,
    run,
    sim,
    slot_of,
    snapshot,
    spark,
    status,
    subscribe,
)

COMMANDS = {
    "Try it": (dev, demo, cluster),
    "Provide and consume": (publish, subscribe, lookups, slot_of),
    "Run servers": (run, gateway, config, plugins),
    "Look": (status, audience, past, explain),
    "Operate": (drain, override, provide, election, admin, snapshot, plan),
    "Measure and prove": (bench, chaos, sim, spark),
}
"""Modules of commands, in the order and under the headings of the help."""
EXIT_CODES = """Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found, 4 unreachable,
5 refused, 6 timed out, 130 interrupted."""

app = typer.Typer(
    name="slotreeve",
    help="A service registry: providers publish, consumers subscribe, changes arrive within milliseconds.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(heading: str, modules: Sequence[ModuleType]) -> None:
    """Add the commands of these modules. The list of all commands has the first sentence of each under the heading."""
    groups, commands = len(app.registered_groups), len(app.registered_commands)
    for module in modules:
        module.add_to(app)
    for group in app.registered_groups[groups:]:
        group.rich_help_panel = heading
    for command in app.registered_commands[commands:]:
        command.rich_help_panel = heading
        sentence = " ".join((getdoc(command.callback) or "").split()).partition(". ")[0]
        command.short_help = command.short_help or f"{sentence.removesuffix('.')}."


for _heading, _modules in COMMANDS.items():
    _add(_heading, _modules)


def _print_version(wanted: bool) -> None:
    if wanted:
        # The kernel takes four times as long to import as this takes.
        from importlib.metadata import version

        typer.echo(f"slotreeve {version('slotreeve')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A service registry: providers publish, consumers subscribe, changes arrive within milliseconds."""


def main() -> None:
    """Entry point: every slotreeve error becomes one line on standard error and its exit code."""
    from slotreeve.errors import SlotreeveError

    try:
        app()
    except SlotreeveError as error:
        typer.echo(f"slotreeve: error {error.code}: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
