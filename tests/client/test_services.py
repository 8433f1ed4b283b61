"""When subscribers see instances and the operator's overrides of them."""

from __future__ import annotations

import random
from collections.abc import Callable

from slotreeve.clock import LoopClock
from slotreeve.model.datum import content_digest
from slotreeve.model.publisher import Publisher
from slotreeve_client.callbacks import Callbacks
from slotreeve_client.services import WatchedServices
from slotreeve_client.subscription import Subscription, Watched
from slotreeve_conformance import virtual_time
from slotreeve_protocol.client_messages import Push, Scope
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import Override, Overrides

DRAINED = Overrides().changed("s", "a:1", Override(drain=True)).encode()
OF_ANOTHER = Overrides().changed("t", "a:1", Override(drain=True)).encode()
ENVELOPE = encode_instance(Instance("a", 1))


class World:
    """One service with a subscriber that writes down the weights it is told."""

    def __init__(self) -> None:
        self.services = WatchedServices(Callbacks(LoopClock()))
        self.watched: Watched = self.services.add(("s", Scope.DATA_CENTER))
        self.told: list[list[int | None]] = []
        self.subscription = Subscription(self.watched, self._changed, self.watched.subscriptions.remove)
        self.watched.subscriptions.append(self.subscription)
        self._records: list[Publisher] = []

    def _changed(self, subscription: Subscription) -> None:
        self.told.append(self.weights)

    @property
    def weights(self) -> list[int | None]:
        return [p.instance.weight if p.instance is not None else None for p in self.subscription.instances]

    def push(self, *payloads: bytes, more: bool = False) -> None:
        """The whole service has these payloads now."""
        records = [Publisher(f"r{n}", "s", 1, 1, "x", "", (data,)) for n, data in enumerate(payloads)]
        version = self.watched.copy.version + 1
        push = Push("s", Scope.DATA_CENTER, 0, version, content_digest(records), records, [], more)
        if self.watched.apply(push):
            self.services.announce(self.watched)


def in_a_world(story: Callable[[World], None]) -> None:
    async def scenario(_rng: random.Random) -> None:
        story(World())

    virtual_time.run(scenario)


def test_bytes_are_seen_at_once_and_need_no_overrides() -> None:
    def story(world: World) -> None:
        world.push(b"x")
        assert (world.told, world.watched.has_instances, world.subscription.is_ready) == ([[None]], False, True)
        changes = world.subscription.changes
        world.services.overrides_arrived(DRAINED)
        assert (world.told, world.subscription.changes) == ([[None]], changes)

    in_a_world(story)


def test_instances_are_seen_once_their_overrides_are_known() -> None:
    def story(world: World) -> None:
        world.push(ENVELOPE)
        assert (world.told, world.weights, world.subscription.is_ready) == ([], [], False)
        world.services.overrides_arrived(DRAINED)
        assert (world.told, world.weights, world.subscription.is_ready) == ([[0]], [0], True)

    in_a_world(story)


def test_where_there_are_none_the_instances_are_seen_too() -> None:
    def story(world: World) -> None:
        world.push(ENVELOPE)
        world.services.overrides_arrived(None)
        assert (world.told, world.subscription.is_ready) == ([[100]], True)

    in_a_world(story)


def test_overrides_that_come_before_the_first_push_wait_for_it() -> None:
    def story(world: World) -> None:
        world.push(ENVELOPE, more=True)
        world.services.overrides_arrived(DRAINED)
        assert (world.told, world.subscription.is_ready) == ([], False)
        world.push(ENVELOPE)
        assert world.told == [[0]]

    in_a_world(story)


def test_an_instance_that_joins_bytes_is_seen_once_its_overrides_are_known_and_the_bytes_stay() -> None:
    def story(world: World) -> None:
        world.push(b"x")
        world.push(b"x", ENVELOPE)
        assert (world.told, world.weights) == ([[None]], [None])
        world.services.overrides_arrived(DRAINED)
        assert world.told == [[None], [None, 0]]

    in_a_world(story)


def test_the_first_instance_of_an_empty_service_is_not_seen_undrained() -> None:
    def story(world: World) -> None:
        world.push()
        world.push(ENVELOPE)
        assert (world.told, world.weights) == ([[]], [])
        world.services.overrides_arrived(DRAINED)
        assert world.told == [[], [0]]

    in_a_world(story)


def test_subscribers_are_told_only_of_overrides_of_their_service() -> None:
    def story(world: World) -> None:
        world.push(ENVELOPE)
        world.services.overrides_arrived(None)
        changes = world.subscription.changes
        world.services.overrides_arrived(OF_ANOTHER)
        assert (world.told, world.subscription.changes) == ([[100]], changes)
        world.services.overrides_arrived(DRAINED)
        world.services.overrides_arrived(None)
        assert (world.told, world.subscription.changes) == ([[100], [0], [100]], changes + 2)

    in_a_world(story)


def test_a_later_subscription_begins_with_the_overrides() -> None:
    def story(world: World) -> None:
        world.services.overrides_arrived(DRAINED)
        assert world.services.add(("s", Scope.ZONE)).follow_overrides() is False
        world.push(ENVELOPE)
        assert world.told == [[0]]
        world.services.close()
        assert world.subscription.has_ended

    in_a_world(story)


def test_a_change_of_overrides_decodes_nothing_again() -> None:
    def story(world: World) -> None:
        world.push(ENVELOPE, ENVELOPE)
        world.services.overrides_arrived(None)
        before = [provider.said for provider in world.subscription.instances]
        world.services.overrides_arrived(DRAINED)
        after = world.subscription.instances
        assert all(provider.said is said for provider, said in zip(after, before, strict=True))
        assert world.subscription.instances[0] is after[0]

    in_a_world(story)
