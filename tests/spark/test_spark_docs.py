"""Every command that the manual of the Spark side shows is one that there is, and its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main
from slotreeve_cli.main import app
from slotreeve_events.schema import KINDS
from slotreeve_spark.pipeline.marts import MARTS

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
COMMANDS = re.findall(r"^slotreeve (spark .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_manual_is_understood(line: str) -> None:
    command, rest = typer.main.get_command(app), shlex.split(line, comments=True)
    context = command.make_context("slotreeve", rest)
    while isinstance(command, typer.core.TyperGroup):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    assert not context.args


def test_the_manual_names_every_mart_and_every_kind_of_event() -> None:
    assert all(f"marts/{name}`" in PAGE for name in MARTS)
    assert all(f"`{kind}`" in PAGE for kind in KINDS)
