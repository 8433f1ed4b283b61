"""A sweep over the options of one balancer: which combinations there are, and the configuration of the best."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping

from slotreeve.errors import ConfigError
from slotreeve.toml_text import toml_key, toml_value

MOST_VARIANTS = 64
EVERY_VALUE = 5
"""A range of whole numbers with so many values at most is tried whole; a longer one by doubling."""
STEPS = 5
"""Values tried of a range of numbers that are not whole."""


def variants(text: str) -> tuple[dict[str, object], ...]:
    """Every combination of ``moves_per_server=4..64,tolerance=0..2``: options by name.

    A value is ``LOW..HIGH`` (both ends are tried; whole numbers double in between, or are all tried where they are
    few), several with ``|`` between them, or one. The plugin's options model checks them later.

    Raises:
        ConfigError: it is none of that form, or there are more than :data:`MOST_VARIANTS` combinations.
    """
    values = dict[str, list[object]]()
    for part in text.split(","):
        name, equals, given = part.strip().partition("=")
        if not name or not equals or not given or name in values:
            raise ConfigError(
                f"--parameters {part.strip()}: expected NAME=LOW..HIGH, NAME=VALUE|VALUE or NAME=VALUE, once"
            )
        values[name] = [value for one in given.split("|") for value in _values(one, part.strip())]
    number = math.prod(map(len, values.values()))
    if number > MOST_VARIANTS:
        raise ConfigError(f"--parameters {text}: {number} combinations; at most {MOST_VARIANTS} are tried")
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))


def snippet(balancer: str, options: Mapping[str, object]) -> str:
    """The configuration to paste (TOML). What is null, which TOML does not have, is left to its default."""
    lines = ["[balancer]", f"use = {toml_value(balancer)}", "", f"[balancer.{toml_key(balancer)}]"]
    return "\n".join([*lines, *(f"{toml_key(n)} = {toml_value(v)}" for n, v in options.items() if v is not None)])


def _values(text: str, where: str) -> Iterator[object]:
    low_text, dots, high_text = text.partition("..")
    if not dots:
        yield _value(text)
        return
    low, high = _value(low_text), _value(high_text)
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not low < high:
        raise ConfigError(f"--parameters {where}: expected two numbers, the lower one first")
    if isinstance(low, int) and isinstance(high, int):
        yield from _whole(low, high)
    else:
        yield from (low + (high - low) * step / (STEPS - 1) for step in range(STEPS))


def _whole(low: int, high: int) -> Iterator[int]:
    value, few = low, high - low < EVERY_VALUE
    while value < high:
        yield value
        value += 1 if few else max(1, abs(value))
    yield high


def _value(text: str) -> object:
    """A number, true or false as in JSON, else text."""
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found
