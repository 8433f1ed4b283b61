"""A complete configuration file: every setting with what it does, the defaults as comments. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from slotreeve.toml_text import toml_value

if TYPE_CHECKING:
    from pydantic import BaseModel
    from slotreeve.catalogue import Catalogue

WIDTH = 110


def complete_file(catalogue: Catalogue, chosen: Mapping[str, object]) -> str:
    """The file, with the chosen values (by dotted key) in force. Of the plugins the options of the chosen ones are in
    it."""
    from pydantic import BaseModel
    from slotreeve.configuration import PluginTables
    from slotreeve.offers import Port
    from slotreeve_servers.settings import Settings

    lines: list[str] = ["# Every setting. A line that begins with #= is a default; take #= away to change it."]
    for section, field in Settings.model_fields.items():
        model = field.annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        if not issubclass(model, PluginTables):
            lines += ["", *_comment(model.__doc__ or ""), f"[{section}]", *_table(model, section, chosen)]
    for port in Port:
        default = Settings.model_fields[port.value].default.use
        use = chosen.get(f"{port.value}.use", default)
        lines += ["", f"[{port.value}]", _line("use", use, is_chosen=f"{port.value}.use" in chosen)]
        for name in [use] if isinstance(use, str) else list(default):
            entry = catalogue.find(port, str(name))
            options = entry.offer.options
            if options.model_fields:
                place = f"{port.value}.{name}"
                lines += ["", *_comment(f"{entry.offer.summary}."), f"[{place}]", *_table(options, place, chosen)]
    return "\n".join(lines) + "\n"


def _table(model: type[BaseModel], place: str, chosen: Mapping[str, object]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{place}.{name}"
        default = "" if field.is_required() else field.get_default(call_default_factory=True)
        yield from _comment(field.description or "")
        yield _line(name, chosen.get(key, default), is_chosen=key in chosen)


def _line(name: str, value: object, *, is_chosen: bool) -> str:
    return f"{'' if is_chosen else '#= '}{name} = {toml_value(_plain(value))}"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.replace("`", "").split()), WIDTH)]


def _plain(value: object) -> object:
    """A value of a setting as TOML has it: what is unset is false there, and secrets and paths are texts."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if value is None:
        return False
    if isinstance(value, bool | int | float):
        return value
    secret = getattr(value, "get_secret_value", None)
    return str(secret() if secret is not None else value)
