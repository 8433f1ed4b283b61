"""Entries of the provided configuration, without what must stay secret. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slotreeve.errors import ModelError
from slotreeve_gateway.acts.kinds import OWN_KEYS
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import ORDERS_KEY
from slotreeve_protocol.overrides import OVERRIDES_KEY
from slotreeve_protocol.tokens import TOKENS_KEY, Tokens

MOST_SHOWN = 2_000
"""Characters of a value that are shown."""
_SECRET = re.compile(r"secret|token|passw|credential|private|\bkey\b|api_?key", re.IGNORECASE).search
OWN = {
    ORDERS_KEY: "Standing orders of operators: slotreeve admin.",
    OVERRIDES_KEY: "Overrides of single instances: slotreeve override.",
    TOKENS_KEY: "Tokens of gateways: slotreeve gateway token.",
}


@dataclass(frozen=True)
class EntryRow:
    """One entry. ``text``: its value, or the beginning of it; ``note``: what it is, or why it is not shown."""

    key: str
    version: int
    size: int
    text: str = ""
    note: str = ""

    @property
    def may_be_written(self) -> bool:
        """Whether operators write it as configuration."""
        return not self.key.startswith(OWN_KEYS)


def may_be_secret(key: str) -> bool:
    """Whether the value of a key is not shown."""
    return _SECRET(key) is not None


def entry_rows(entries: Iterable[ConfigEntry]) -> Sequence[EntryRow]:
    """All entries in the order of their keys."""
    return [_row(entry) for entry in sorted(entries, key=lambda entry: entry.key)]


def _row(entry: ConfigEntry) -> EntryRow:
    value = entry.value or b""
    row = EntryRow(entry.key, entry.version, len(value), note=OWN.get(entry.key, ""))
    if entry.key == TOKENS_KEY:
        return EntryRow(row.key, row.version, row.size, _token_names(value), f"{row.note} Hashes are not shown.")
    if may_be_secret(entry.key):
        return EntryRow(row.key, row.version, row.size, note="Not shown: by its key it may be a secret.")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return EntryRow(row.key, row.version, row.size, note="The value is no text.")
    shown = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
    return EntryRow(row.key, row.version, row.size, shown, row.note)


def _token_names(value: bytes) -> str:
    """The name and the rights of each token."""
    try:
        tokens = Tokens.decode(value)
    except ModelError:
        return ""
    return "\n".join(f"{token.name}: {', '.join(token.rights)}" for token in tokens.by_id.values())
