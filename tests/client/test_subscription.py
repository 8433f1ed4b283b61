"""A subscriber, and the copy of a service that subscribers share."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import ClientClosed
from slotreeve.model.datum import NO_VERSION, content_digest
from slotreeve.model.publisher import Publisher
from slotreeve_client.overriding import OverridesInForce
from slotreeve_client.provider import Provider
from slotreeve_client.subscription import Subscription, Watched
from slotreeve_protocol.client_messages import Push, Scope

A = "a#@#i#@#g"


def provider(register_id: str, data: bytes = b"x", zone: str = "") -> Publisher:
    return Publisher(register_id, A, 1, 1, "session-1@1", zone, (data,))


def push(start: int, version: int, changed: list[Publisher], result: list[Publisher], *removed: str) -> Push:
    return Push(A, Scope.DATA_CENTER, start, version, content_digest(result), changed, list(removed))


def watched() -> Watched:
    """A copy at version 5 with two providers."""
    made = Watched(A, Scope.DATA_CENTER, OverridesInForce())
    assert made.apply(push(0, 5, [provider("q"), provider("p")], [provider("q"), provider("p")]))
    return made


def subscribe(to: Watched, seen: list[tuple[Provider, ...]] | None = None) -> Subscription:
    def changed(subscription: Subscription) -> None:
        if seen is not None:
            seen.append(subscription.instances)

    made = Subscription(to, changed, to.subscriptions.remove)
    to.subscriptions.append(made)
    return made


def test_providers_come_in_the_order_of_their_ids() -> None:
    made = subscribe(watched())
    assert made.instances == (Provider("p", "", (b"x",)), Provider("q", "", (b"x",)))
    assert made.count == 2
    assert (made.version, made.data_info_id, made.scope, made.is_ready) == (5, A, Scope.DATA_CENTER, True)


def test_a_delta_leads_from_one_version_to_the_next() -> None:
    copy = watched()
    result = [provider("q"), provider("r", zone="east")]
    assert copy.apply(push(5, 6, [provider("r", zone="east")], result, "p"))
    assert subscribe(copy).instances == (Provider("q", "", (b"x",)), Provider("r", "east", (b"x",)))


def test_a_push_that_is_not_newer_changes_nothing() -> None:
    copy = watched()
    assert not copy.apply(push(0, 5, [], []))
    assert not copy.apply(push(3, 4, [], []))
    assert len(subscribe(copy).instances) == 2
    assert copy.copy.version == 5


@pytest.mark.parametrize(
    ("wrong", "logged"),
    [
        (push(6, 7, [], []), "starts at a version that this client does not have"),
        (push(5, 6, [], [], "p"), "the digest of a push"),
    ],
)
def test_after_a_push_that_does_not_fit_only_the_whole_service_fits(
    wrong: Push, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy = watched()
    assert not copy.apply(wrong)
    assert logged in caplog.text
    assert copy.copy.version == NO_VERSION
    assert not copy.apply(push(5, 8, [], []))
    assert copy.apply(push(0, 8, [provider("s")], [provider("s")]))
    assert [instance.register_id for instance in subscribe(copy).instances] == ["s"]


def test_a_call_passes_on_what_the_callback_raises() -> None:
    def broken(_subscription: Subscription) -> None:
        raise ValueError("a defect of the user's")

    made = Subscription(watched(), broken, lambda _subscription: None)
    with pytest.raises(ValueError, match="a defect"):
        made.call()
    assert (made.updates, made.label) == (1, "the subscription to a#@#i#@#g")


def test_no_callback_follows_the_end_of_a_subscription() -> None:
    copy = watched()
    seen: list[tuple[Provider, ...]] = []
    made = subscribe(copy, seen)
    assert made.changed()
    made.call()
    made.unsubscribe()
    made.unsubscribe()
    assert not made.changed()
    made.call()
    assert len(seen) == 1
    assert copy.subscriptions == []


def test_ready_waits_for_the_first_push() -> None:
    async def scenario() -> None:
        copy = Watched(A, Scope.DATA_CENTER, OverridesInForce())
        made = subscribe(copy)
        waiting = asyncio.create_task(made.ready())
        await asyncio.sleep(0)
        assert not waiting.done()
        copy.apply(push(0, 1, [], []))
        assert made.changed()
        await waiting
        await made.ready()
        assert made.instances == ()

    asyncio.run(scenario())


def test_ready_fails_when_the_subscription_ends() -> None:
    async def scenario() -> None:
        made = subscribe(Watched(A, Scope.DATA_CENTER, OverridesInForce()))
        waiting = asyncio.create_task(made.ready())
        await asyncio.sleep(0)
        made.close()
        for wait in (waiting, made.ready()):
            with pytest.raises(ClientClosed):
                await wait

    asyncio.run(scenario())
