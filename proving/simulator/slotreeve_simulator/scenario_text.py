"""A scenario as the text of its TOML file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotreeve.toml_text import toml_key, toml_value

from slotreeve_simulator.scenario import Scenario


def as_toml(scenario: Scenario, comments: Iterable[str] = ()) -> str:
    """The file of a scenario, which :func:`slotreeve_simulator.scenario.load_scenario` reads as an equal one. Values
    that are defaults are left out. ``comments`` are the first lines."""
    lines = [f"# {' '.join(comment.split())}\n" for comment in comments]
    return "".join(lines) + toml_text(scenario.model_dump(mode="json", exclude_defaults=True))


def toml_text(tables: Mapping[str, object]) -> str:
    """TOML of simple values and of tables, which hold values and lists of tables."""
    lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in tables.items() if not isinstance(value, dict)]
    for name, table in tables.items():
        if isinstance(table, dict):
            lines += _section(toml_key(name), table)
    return "\n".join(lines) + "\n"


def _section(name: str, table: dict[str, object]) -> list[str]:
    """The lines of one table: simple values first, and then its lists of tables, an entry each."""
    lists = {key: value for key, value in table.items() if isinstance(value, list) and value and _are_tables(value)}
    simple = (f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items() if key not in lists)
    lines = ["", f"[{name}]", *simple]
    for key, entries in lists.items():
        for entry in entries:
            lines += ["", f"[[{name}.{toml_key(key)}]]"]
            lines += [f"{toml_key(inner)} = {toml_value(value)}" for inner, value in entry.items()]
    return lines


def _are_tables(values: list[object]) -> bool:
    return all(isinstance(value, dict) for value in values)
