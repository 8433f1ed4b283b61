"""What the console shows of delays, on a simulated cluster."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_client.administration import put_config
from slotreeve_face_console.delay_topics import _kept
from slotreeve_protocol.delay_messages import DelayPage, ObjectiveWindow
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_transport_memory.transport import MemoryTransport

from tests.faces.console.console_on_trial import ConsoleOnTrial, play

SERVICE = "com.example.Greeter"


def test_the_first_page_shows_the_objective_and_who_waits_and_a_service_its_versions() -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        cluster = trial.cluster
        publication = cluster.client().publish(SERVICE, "0")
        consumer = cluster.client(name="consumer")
        watched = consumer.subscribe(SERVICE)
        await cluster.until(lambda: watched.instances, "it is seen")
        for number in range(3):
            publication.republish(str(1 + number))
            await asyncio.sleep(1)
        said = await trial.words("/ui/")
        assert "Changes in time" in said
        assert "100 % in time of 3 pushes in the last hour; 99.9 % within 500 ms wanted" in said
        assert "Nobody waits for a change." in said
        said = await trial.words(f"/ui/services/{SERVICE}")
        assert "How its changes travel" in said
        assert "leads the slot newest" in said
        assert "session server newest" in said
        assert "ms to this server, " in said
        assert "older" not in said
        transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
        metas = [cluster.address(name) for name in cluster.servers if name.startswith("meta")]
        await put_config(transport, "slotreeve", metas, ORDERS_KEY, Orders(push_stopped=True).encode())
        await asyncio.sleep(1)
        publication.republish("9")
        await asyncio.sleep(7)
        said = await trial.words("/ui/")
        assert f"{consumer.client_id} at " in said
        assert f" for a change of {SERVICE}, says session-" in said
        assert "an order stops pushes to it." in said
        await transport.close()

    play(story)


@pytest.mark.parametrize(
    ("short", "long", "burns", "shown"),
    [
        ((0, 0), (0, 0), False, ("no change was pushed in the last hour", "99 % within 250 ms wanted", "")),
        (
            (10, 0),
            (1_000, 5),
            False,
            ("99.5 % in time", "of 1,000 pushes in the last hour; 99 % within 250 ms wanted", ""),
        ),
        (
            (10, 1),
            (10, 1),
            False,
            ("90 % in time", "of 10 pushes in the last hour; 99 % within 250 ms wanted", "soon"),
        ),
        (
            (10, 5),
            (10, 5),
            True,
            (
                "50 % in time",
                "of 10 pushes in the last hour; 99 % within 250 ms wanted; the burn rate of five minutes is 50",
                "bad",
            ),
        ),
    ],
)
def test_how_a_session_server_keeps_its_objective_is_said_in_a_line(
    short: tuple[int, int], long: tuple[int, int], burns: bool, shown: tuple[str, str, str]
) -> None:
    windows = (ObjectiveWindow(300.0, *short, 100.0 * short[1] / (short[0] or 1)), ObjectiveWindow(3_600.0, *long))
    assert _kept(DelayPage((), 0.25, 0.99, windows, is_burning=burns)) == shown
