"""What one connection sends wrong is logged a few times, and refused each time."""

from __future__ import annotations

import logging

import pytest
from slotreeve.errors import ModelError
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import Datum, Get, Publish
from slotreeve_protocol.general_messages import Failed
from slotreeve_servers.node.dispatch import LONGEST_COMPLAINT, Handlers
from slotreeve_servers.node.outbox import MOST_COMPLAINTS, Peer

from tests.servers.node_scene import Scene, play


def refuses(peer: Peer, message: Get) -> Message:
    raise ModelError("x" * 5_000)


@pytest.mark.parametrize("wrong", [Get("a#@#b#@#c"), Publish(1, [])], ids=["refused", "unexpected"])
def test_the_log_tells_of_one_connection_ten_times_and_each_request_is_answered(
    wrong: Message, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        scene = Scene(Handlers({}, {Get: refuses}, {}))
        await scene.listen()
        for name in ("first", "second"):
            connection, _ = await scene.connect(name)
            answers = [await connection.ask(wrong, 1.0) for _ in range(50)]
            assert all(isinstance(answer, Failed) for answer in answers)
            assert not any(isinstance(answer, Datum) for answer in answers)

    with caplog.at_level(logging.WARNING):
        play(scenario)
    about = [record.getMessage() for record in caplog.records if "first" in record.getMessage()]
    assert len(about) == MOST_COMPLAINTS
    assert about[-1].endswith("(no more of its like is logged)")
    assert max(map(len, about)) < LONGEST_COMPLAINT + 200
    assert sum("second" in record.getMessage() for record in caplog.records) == MOST_COMPLAINTS
