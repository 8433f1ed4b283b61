"""The command line. A process imports the module of the one command that it runs, and that module's own imports stand
inside its functions: so every command is quick, and ``--help`` alone imports all modules."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    app: typer.Typer
    """The whole command line."""

COMMANDS = {
    "Try it": {"dev": "dev", "demo": "demo", "cluster": "cluster"},
    "Provide and consume": {
        "publish": "publish",
        "subscribe": "subscribe",
        "lookups": "get ls",
        "dump": "dump",
        "slot_of": "slot-of",
    },
    "Run servers": {
        "run": "meta data session",
        "gateway": "gateway",
        "keys": "keys",
        "config": "config",
        "doctor": "doctor",
        "plugins": "plugins",
    },
    "Look": {
        "status": "status slots leader members counters",
        "health": "health",
        "top": "top",
        "audience": "clients application subscribers",
        "delays": "delays",
        "past": "why events diff",
        "explain": "explain",
        "debug": "debug",
    },
    "Operate": {
        "drain": "drain",
        "mirror": "import compare",
        "override": "override",
        "provide": "provide",
        "live_settings": "settings",
        "election": "election",
        "admin": "admin",
        "snapshot": "snapshot",
        "plan": "plan",
    },
    "Measure and prove": {"bench": "bench", "chaos": "chaos", "sim": "sim", "spark": "spark"},
}
"""Modules with the commands that each adds, in the order and under the headings of the help."""
EXIT_CODES = """Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found, 4 unreachable,
5 refused, 6 timed out, 130 interrupted."""
ELSEWHERE = {
    **dict.fromkeys(["slotreeve_conformance", "slotreeve_simulator", "slotreeve_chaos", "slotreeve_bench"], "proving"),
    **dict.fromkeys(["slotreeve_spark", "pyspark", "py4j", "pandas", "pyarrow", "numpy", "matplotlib"], "spark"),
    "httpx": "migrate",
}
"""Modules that are not installed with the command line, by the extra that brings them."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What is said where the output leads to a disk that takes no more."""
PURPOSE = "A service registry: providers publish, consumers subscribe, changes arrive within milliseconds."


def command_line(asked: str = "") -> typer.Typer:
    """The command line with the commands of the module that adds the command ``asked``; with all if none does."""
    import typer

    made = typer.Typer(
        name="slotreeve",
        help=PURPOSE,
        epilog=EXIT_CODES,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def root(
        version: bool = typer.Option(
            False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ) -> None:
        pass

    made.callback(help=PURPOSE)(root)
    every = [(heading, module, names.split()) for heading, of in COMMANDS.items() for module, names in of.items()]
    chosen = [row for row in every if asked in row[2]] or every
    for heading, module, _ in chosen:
        _add(made, heading, module)
    return made


def _add(made: typer.Typer, heading: str, module: str) -> None:
    """Add the commands of a module. The list of all commands has the first sentence of each under the heading."""
    from inspect import getdoc

    groups, commands = len(made.registered_groups), len(made.registered_commands)
    importlib.import_module(f"slotreeve_cli.{module}").add_to(made)
    for group in made.registered_groups[groups:]:
        group.rich_help_panel = heading
    for command in made.registered_commands[commands:]:
        command.rich_help_panel = heading
        sentence = " ".join((getdoc(command.callback) or "").split()).partition(". ")[0]
        command.short_help = command.short_help or f"{sentence.removesuffix('.')}."


def _version() -> str:
    # The kernel takes four times as long to import as this takes.
    from importlib.metadata import version

    return f"slotreeve {version('slotreeve')}"


def _print_version(wanted: bool) -> None:
    if wanted:
        import typer

        typer.echo(_version())
        raise typer.Exit


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """``app`` is made when it is asked for: the entry point needs one command of it only."""
        if name != "app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()["app"] = made = command_line()
        return made


def main() -> None:
    """Entry point: every slotreeve error becomes one line on standard error and its exit code."""
    arguments = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not have all characters
    try:
        if arguments == ["--version"]:
            print(_version(), flush=True)
            return
        command_line(arguments[0] if arguments else "")()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # nobody reads; the interpreter would try again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            print(f"slotreeve: the output cannot be written: {error.strerror}", file=sys.stderr)
            sys.exit(1)
        # Only here: the kernel takes longer to import than the help to print.
        from slotreeve.errors import PluginError, SlotreeveError

        if isinstance(error, ModuleNotFoundError) and (extra := ELSEWHERE.get((error.name or "").partition(".")[0])):
            error = PluginError(f"this needs {error.name}, which is not installed; pip install 'slotreeve[{extra}]'")
        if not isinstance(error, SlotreeveError):
            raise
        print(f"slotreeve: error {error.code}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
