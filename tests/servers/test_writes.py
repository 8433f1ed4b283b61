"""What waits on a session server for the slot leaders."""

from __future__ import annotations

from slotreeve.model.publisher import Publisher
from slotreeve_servers.session.writes import WEIGHT_PER_MESSAGE, _Batch, _Delivery


def test_who_waits_for_a_batch_that_is_cut_waits_for_both_parts() -> None:
    record = Publisher("r1", "com.example.A#@#i#@#g", 1, 1, "session-1@1", "", (b"x",))
    count = WEIGHT_PER_MESSAGE + 1
    told: list[str] = []
    delivery = _Delivery(1, lambda: told.append("stored"))
    rest = _Batch(records=[record] * count, sequences=list(range(count)), weight=count, deliveries=[delivery])
    first = rest.split()
    assert (len(first.records), len(rest.records)) == (WEIGHT_PER_MESSAGE, 1)
    for waiting in rest.deliveries:
        waiting.one_stored()
    assert told == []
    for waiting in first.deliveries:
        waiting.one_stored()
    assert told == ["stored"]
