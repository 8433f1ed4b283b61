"""The command line. Every command's own imports stand inside it, so that ``--version`` and ``--help`` are quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from slotreeve_cli import (
    admin,
    bench,
    chaos,
    cluster,
    config,
    demo,
    dev,
    election,
    explain,
    gateway,
    lookups,
    override,
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

COMMANDS = (
    dev,
    cluster,
    run,
    gateway,
    publish,
    subscribe,
    lookups,
    override,
    status,
    slot_of,
    plan,
    election,
    provide,
    snapshot,
    admin,
    explain,
    config,
    plugins,
    demo,
    bench,
    chaos,
    sim,
    spark,
)
"""Modules of commands, in the order of the help."""
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
for module in COMMANDS:
    module.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from slotreeve import __version__

        typer.echo(f"slotreeve {__version__}")
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
