"""The data info ids of the names that users give."""

from __future__ import annotations

import pytest
from slotreeve.errors import ModelError
from slotreeve_client import names
from slotreeve_client.names import ServiceNames


def test_a_data_id_alone_and_a_whole_data_info_id_are_names() -> None:
    found = ServiceNames()
    for service in ("a", "a", "a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"):
        assert found.id_of(service) == "a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
    with pytest.raises(ModelError, match="blank"):
        found.id_of(" ")


def test_no_more_names_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "KNOWN_IDS", 3)
    found = ServiceNames()
    for number in range(10):
        assert found.id_of(f"s{number}").startswith(f"s{number}#@#")
        assert len(found._ids) <= 3
