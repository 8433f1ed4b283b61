"""One registration of a provider."""

from __future__ import annotations

import asyncio
import gc
import traceback

import pytest
from slotreeve.errors import ClientClosed, ModelError, RegistrationError
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, PART_BYTES
from slotreeve_client import Scope, Subscription
from slotreeve_client.overriding import OverridesInForce
from slotreeve_client.publication import Publication, payload
from slotreeve_client.subscription import Watched


def publication(changes: list[tuple[int, tuple[bytes, ...] | None]] | None = None) -> Publication:
    def changed(changed_one: Publication) -> None:
        if changes is not None:
            changes.append((changed_one.version, changed_one.data))

    return Publication("r", "a#@#i#@#g", "east", (b"1",), changed)


def test_each_change_has_the_next_version() -> None:
    changes: list[tuple[int, tuple[bytes, ...] | None]] = []
    made = publication(changes)
    made.republish("2", b"3")
    made.unpublish()
    assert changes == [(2, (b"2", b"3")), (3, None)]


def test_an_unpublished_registration_cannot_be_changed() -> None:
    made = publication()
    made.unpublish()
    for change in (made.unpublish, lambda: made.republish("x")):
        with pytest.raises(RegistrationError, match="was unpublished; publish it again"):
            change()
    assert made.version == 2


def test_a_payload_is_bytes_and_text_in_utf_8_up_to_its_limit() -> None:
    assert payload(("ä", b"\xff")) == ("ä".encode(), b"\xff")
    whole = b"x" * MAX_PAYLOAD_BYTES
    assert payload((whole,)) == (whole,)
    with pytest.raises(ModelError, match=f"{MAX_PAYLOAD_BYTES + PART_BYTES} bytes, in 2 parts, are too many"):
        payload((whole, ""))
    for wrong in (5, None, 1.5, ["x"]):
        with pytest.raises(ModelError, match="expected a text"):
            payload((wrong,))  # type: ignore[arg-type]  # what a caller without types may pass


def test_a_payload_that_is_too_large_changes_nothing() -> None:
    made = publication()
    with pytest.raises(ModelError):
        made.republish(b"x" * (MAX_PAYLOAD_BYTES + 1))
    assert (made.version, made.data) == (1, (b"1",))


def test_a_wait_ends_with_the_acknowledgement_of_its_version_or_a_later_one_whatever_is_published_meanwhile() -> None:
    async def scenario() -> None:
        made = publication()
        waiting = []
        for number in range(2, 6):
            made.republish(str(number))
            waiting.append(asyncio.create_task(made.acknowledged()))
            await asyncio.sleep(0)

        async def ended() -> list[bool]:
            await asyncio.sleep(0)
            return [wait.done() for wait in waiting]

        made.settle(3, (b"3",))
        assert await ended() == [True, True, False, False]
        made.take_back(4, (b"4",), RegistrationError("refused"))
        assert await ended() == [True, True, False, True]
        made.settle(4, (b"4",))
        assert await ended() == [True, True, True, True]
        with pytest.raises(RegistrationError, match="refused"):
            await waiting[3]

    asyncio.run(scenario())


def test_only_the_acknowledgement_of_the_present_version_ends_the_wait() -> None:
    async def scenario() -> None:
        made = publication()
        made.republish("2")
        waiting = asyncio.create_task(made.acknowledged())
        await asyncio.sleep(0)
        made.settle(1, (b"1",))
        await asyncio.sleep(0)
        assert not waiting.done()
        made.settle(2, (b"2",))
        await waiting
        await made.acknowledged()
        made.settle(1, (b"1",))  # a late one
        assert (made.acknowledged_version, made.is_acknowledged) == (2, True)

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [RegistrationError("refused"), ClientClosed("the client was closed")])
def test_the_end_of_a_registration_is_raised_to_whoever_waits_or_calls(error: RegistrationError | ClientClosed) -> None:
    async def scenario() -> None:
        made = publication()
        waiting = [asyncio.create_task(made.acknowledged()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        made.end(error)
        for wait in (waiting[0], made.acknowledged()):
            with pytest.raises(type(error)):
                await wait
        with pytest.raises(type(error)):
            made.republish("x")

    asyncio.run(scenario())


def futures_in_memory() -> int:
    gc.collect()
    return sum(isinstance(found, asyncio.Future) for found in gc.get_objects())


def test_a_wait_that_is_given_up_is_forgotten_and_a_refusal_that_is_raised_often_stays_as_it_is() -> None:
    async def scenario() -> None:
        made = publication()
        subscribed = Subscription(Watched("a#@#i#@#g", Scope.DATA_CENTER, OverridesInForce()), None, lambda ended: None)
        before = futures_in_memory()
        for _ in range(50):
            for wait in (made.acknowledged(), subscribed.ready()):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(wait, 0.0001)
        assert futures_in_memory() < before + 10
        made.end(RegistrationError("refused"))
        for _ in range(50):
            with pytest.raises(RegistrationError) as raised:
                made.check()
        assert len(traceback.extract_tb(raised.value.__traceback__)) < 5

    asyncio.run(scenario())
