"""A scenario as the text of its TOML file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from slotreeve_simulator.scenario import Scenario

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def as_toml(scenario: Scenario, comments: Iterable[str] = ()) -> str:
    """The file of a scenario, which :func:`slotreeve_simulator.scenario.load_scenario` reads as an equal one. Values
    that are defaults are left out. ``comments`` are the first lines."""
    lines = [f"# {' '.join(comment.split())}\n" for comment in comments]
    return "".join(lines) + toml_text(scenario.model_dump(mode="json", exclude_defaults=True))


def toml_text(tables: Mapping[str, object]) -> str:
    """TOML of simple values and of tables, which hold values and lists of tables."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in tables.items() if not isinstance(value, dict)]
    for name, table in tables.items():
        if isinstance(table, dict):
            lines += _section(_key(name), table)
    return "\n".join(lines) + "\n"


def _section(name: str, table: dict[str, object]) -> list[str]:
    """The lines of one table: simple values first, and then its lists of tables, an entry each."""
    lists = {key: value for key, value in table.items() if isinstance(value, list) and value and _are_tables(value)}
    lines = ["", f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items() if key not in lists)]
    for key, entries in lists.items():
        for entry in entries:
            lines += ["", f"[[{name}.{_key(key)}]]", *(f"{_key(k)} = {_value(v)}" for k, v in entry.items())]
    return lines


def _are_tables(values: list[object]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A basic string. JSON's escapes are TOML's, but TOML escapes the character DEL, too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
