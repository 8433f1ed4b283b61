"""Options that several commands take, and reading the configuration they make."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from slotreeve_servers.settings import ServerConfiguration

T = TypeVar("T")
DEFAULT_SESSION = "127.0.0.1:7730"
DEFAULT_META = "127.0.0.1:7710"
NOT_FOUND = 3
"""Exit code of a command that found nothing."""


class Output(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


class Rows(StrEnum):
    """How a list of rows is printed."""

    TABLE = "table"
    WIDE = "wide"
    TSV = "tsv"
    JSON = "json"


class ScopeName(StrEnum):
    """Which providers a subscriber sees."""

    ZONE = "zone"
    DATA_CENTER = "data_center"


class HealthName(StrEnum):
    """How a provider is."""

    PASSING = "passing"
    WARNING = "warning"
    CRITICAL = "critical"


def split_addresses(values: list[str]) -> list[str]:
    """Addresses, one an option or several in one, separated by commas or spaces."""
    return [address for value in values for address in value.replace(",", " ").split()]


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]
RowsOption = Annotated[
    Rows,
    typer.Option("--output", "-o", help="table, or wide with more columns, for people; tsv or json for programs."),
]
SessionOption = Annotated[
    list[str],
    typer.Option(
        "--session",
        "-s",
        envvar="SLOTREEVE_SESSION",
        callback=split_addresses,
        help="Session servers, host:port; repeatable, or separated by commas.",
    ),
]
MetaOption = Annotated[
    list[str],
    typer.Option(
        "--meta",
        "-m",
        envvar="SLOTREEVE_META",
        callback=split_addresses,
        help="Meta servers, host:port; repeatable, or separated by commas.",
    ),
]
ClusterOption = Annotated[str, typer.Option("--cluster", envvar="SLOTREEVE_CLUSTER", help="Name of the cluster.")]
GatewayOption = Annotated[
    str,
    typer.Option(
        "--gateway",
        envvar="SLOTREEVE_GATEWAY",
        help="Ask this gateway with the face admin, https://host:port, instead of the servers.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option("--token-file", envvar="SLOTREEVE_TOKEN_FILE", help="File with the token for the gateway."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="SLOTREEVE_CONFIG", help="Configuration file (TOML).")
]
SetOption = Annotated[
    list[str], typer.Option("--set", help="One setting, e.g. meta.lease_seconds=3; stronger than file and environment.")
]


def dotted(settings: list[str]) -> dict[str, object]:
    """``--set`` flags as values by dotted key. One without ``=`` is wrong usage."""
    from slotreeve.configuration import read_value

    flags: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set {setting}: expected key=value, e.g. --set meta.lease_seconds=3")
        flags[key] = read_value(value)
    return flags


def read_configuration(file: Path | None, settings: list[str], **more: object) -> ServerConfiguration:
    """Merge file, environment and flags; ``more`` are flags of their own (``node__name`` for ``node.name``), left out
    where None.

    Raises:
        ConfigError: something is unknown or does not validate.
    """
    from slotreeve_servers.settings import load_settings

    flags = {key.replace("__", "."): value for key, value in more.items() if value is not None}
    return load_settings(file, os.environ, flags | dotted(settings))


def is_terminal() -> bool:
    """True where a person reads standard error."""
    return sys.stderr.isatty()
