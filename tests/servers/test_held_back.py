"""Lost registrations: claims protect them, the brake holds many of them, and every hold ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.publisher import Publisher
from slotreeve_servers.data import held_back
from slotreeve_servers.data.claims import ClaimedClients, client_of
from slotreeve_servers.data.held_back import HeldBack, LostRecord
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots

from tests.servers.held_back_scene import GONE, RULES, Scene, record

# --- few -------------------------------------------------------------------------------------------------------------


def test_few_clients_of_a_dead_session_server_leave_exactly_with_the_grace() -> None:
    scene = Scene(clients=64)
    scene.session_dies(10.0)
    assert scene.released(12.9) == set()
    assert len(scene.released(13.0)) == 64
    assert len(scene.held) == 0


def test_a_client_that_its_session_server_has_lost_leaves_at_once() -> None:
    scene = Scene(clients=1)
    scene.held.hold([LostRecord(scene.slot, scene.records[0], leaves_tombstone=True)], 10.0)
    assert scene.released(10.0) == {"client0"}


def lost(scene: Scene, first: int, last: int) -> list[LostRecord]:
    return [LostRecord(scene.slot, one, leaves_tombstone=True) for one in scene.records[first:last]]


def test_many_clients_that_a_living_session_server_has_lost_have_the_grace() -> None:
    scene = Scene(clients=9)
    scene.held.hold(lost(scene, 0, 9), 10.0)
    assert scene.released(10.0) == scene.released(12.9) == set()
    assert len(scene.released(13.0)) == 9


def test_the_first_of_many_lost_clients_are_held_again_for_the_rest_of_their_grace() -> None:
    scene = Scene(clients=9)
    first = lost(scene, 0, 1)
    scene.held.hold(first, 10.0)
    assert scene.look(10.0) == first
    assert not scene.held.postpone(first[0], 10.1)
    scene.held.hold(lost(scene, 1, 9), 10.2)
    assert scene.held.postpone(first[0], 10.3)
    assert scene.released(12.9) == set()
    assert scene.look(13.1) == first
    assert not scene.held.postpone(first[0], 13.1)


def test_one_client_with_very_many_registrations_is_one_client() -> None:
    scene = Scene(clients=1, services=5000)
    scene.session_dies(10.0)
    assert scene.released(13.0) == {"client0"}


def test_what_comes_back_while_a_look_pauses_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_back, "LOOKED_AT_ONCE", 2)
    scene = Scene(clients=6)
    scene.session_dies(10.0)
    look = scene.held.look(scene.slots.registrations, 13.0)
    assert next(look) == []
    scene.put(record(0, incarnation=2, session="session-2@1"), at=13.0)  # sent again
    scene.claim(1, 13.0)
    assert [entry for part in look for entry in part] == [], "the others have longer, because one has come back"
    scene.end_claim(1, 13.0)
    assert scene.released(22.0) == {"client1", "client2", "client3", "client4", "client5"}


def test_a_look_releases_everything_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_back, "LOOKED_AT_ONCE", 2)
    scene = Scene(clients=3, services=3)
    scene.session_dies(10.0)
    parts = list(scene.held.look(scene.slots.registrations, 13.0))
    assert max(len(part) for part in parts) == 2
    assert sum(len(part) for part in parts) == 9
    assert len(scene.held) == 0


# --- a herd ----------------------------------------------------------------------------------------------------------


def test_nothing_of_a_herd_is_released_while_it_comes_back_and_the_last_ones_get_three_times_the_grace() -> None:
    scene = Scene(clients=1000)
    scene.session_dies(10.0)
    now = 10.0
    for client in range(990):
        now += 0.02
        scene.put(record(client, incarnation=2, session="session-2@1"), at=now)
        assert scene.released(now) == set()
    assert scene.released(now + 8.9) == set()
    assert scene.released(now + 9.0) == {f"client{client}" for client in range(990, 1000)}


class CountingSlots(HeldSlots):
    """Counts how often a slot is looked up."""

    looked_up = 0

    def get(self, number: int) -> HeldSlot | None:
        self.looked_up += 1
        return super().get(number)


def test_a_look_at_a_herd_that_has_time_left_does_not_look_at_each_registration() -> None:
    slots = CountingSlots("data-1")
    scene = Scene(clients=100, services=10, slots=slots)
    scene.session_dies(10.0)
    slots.looked_up = 0
    assert scene.released(12.9) == set()
    assert slots.looked_up == 0


class CountingClaims(ClaimedClients):
    """Counts how often the claim of a client is looked up."""

    looked_up = 0

    def has(self, client: str) -> bool:
        self.looked_up += 1
        return super().has(client)


def test_looks_while_a_herd_comes_back_do_not_cost_a_look_at_each_client() -> None:
    scene = Scene(clients=1000)
    scene.claims = claims = CountingClaims()
    scene.held = HeldBack(RULES, scene.slots, claims, scene.brake)
    scene.session_dies(10.0)
    now = 10.0
    for client in range(500):
        now += 0.02
        scene.claim(client, now)
        scene.put(record(client, incarnation=2, session="session-2@1"), at=now)
        scene.end_claim(client, now)
        assert scene.released(now) == set()
    assert scene.held.clients == 500
    assert claims.looked_up < 5 * 1000


def test_looks_at_many_clients_that_a_living_session_server_has_lost_wait_for_the_grace() -> None:
    scene = Scene(clients=100)
    scene.claims = claims = CountingClaims()
    scene.held = HeldBack(RULES, scene.slots, claims, scene.brake)
    scene.held.hold(lost(scene, 0, 100), 10.0)
    for step in range(29):
        assert scene.released(10.0 + 0.1 * step) == set()
    assert claims.looked_up == 100
    assert scene.released(13.0) == set()
    assert scene.held.braked == 100
    assert claims.looked_up == 200


def test_a_claim_that_begins_shortly_before_the_grace_is_over_puts_the_others_off() -> None:
    scene = Scene(clients=3)
    scene.session_dies(10.0)
    assert scene.released(10.1) == set()
    scene.claim(2, 12.9)
    assert scene.released(13.0) == set()
    assert scene.released(21.8) == set()
    assert scene.released(22.0) == {"client0", "client1"}


def test_a_herd_that_does_not_come_back_is_held_and_leaves_with_the_longest_time() -> None:
    scene = Scene(clients=100)
    scene.session_dies(10.0)
    assert scene.released(69.9) == set()
    assert scene.held.braked == 100
    assert len(scene.released(70.0)) == 100
    assert (scene.held.overdue, scene.held.braked) == (100, 0)


def test_a_large_number_that_is_a_small_share_leaves_with_the_grace() -> None:
    scene = Scene(clients=100)
    scene.put(*[record(client, session="session-2@1") for client in range(100, 1000)])
    scene.session_dies(10.0)
    assert len(scene.released(13.0)) == 100


def test_a_service_that_would_lose_most_of_its_instances_is_held_and_the_others_are_not() -> None:
    scene = Scene(clients=100)
    scene.put(*[record(client, 1, session="session-2@1") for client in range(1000)])
    few = [record(client, 2) for client in range(100, 130)]
    scene.put(*few)
    scene.records += few
    scene.session_dies(10.0)
    assert scene.released(13.0) == {f"client{client}" for client in range(100, 130)}
    assert scene.held.braked == 100


def test_waves_within_the_window_count_together() -> None:
    scene = Scene(clients=120)
    lost = [LostRecord(scene.slot, one, leaves_tombstone=True) for one in scene.records]
    scene.held.hold(lost[:60], 10.0)
    assert len(scene.released(13.0)) == 60
    scene.held.hold(lost[60:], 13.0)
    assert scene.released(16.0) == set()
    assert len(scene.released(23.0)) == 60


# --- claims ----------------------------------------------------------------------------------------------------------


def test_a_claim_protects_for_as_long_as_it_lasts_and_then_the_grace_begins_again() -> None:
    scene = Scene(clients=1)
    scene.session_dies(10.0)
    scene.claim(0, 12.0)
    assert scene.released(100.0) == set()
    scene.end_claim(0, 100.5)
    assert scene.released(100.5) == set()
    assert scene.released(109.5) == {"client0"}


def test_after_a_short_claim_the_rest_has_three_times_the_grace() -> None:
    scene = Scene(clients=1)
    scene.session_dies(10.0)
    scene.claim(0, 12.0)
    assert scene.released(12.0) == set()
    scene.end_claim(0, 14.0)
    assert scene.released(14.0) == set()
    assert scene.released(22.9) == set()
    assert scene.released(23.0) == {"client0"}


def test_a_claim_stays_when_that_of_another_process_ends_even_one_that_began_later() -> None:
    claims = ClaimedClients()
    record = Publisher("c-1", "s", 1, 1, "a", "", (b"x",))
    claims.begin("b", ["c"])
    claims.begin("late", ["c"])
    claims.end("late", ["c"])
    assert claims.protects(record)
    claims.end("b", ["c"])
    assert not claims.protects(record)


def test_a_claim_ends_only_by_the_process_that_began_it() -> None:
    claims = ClaimedClients()
    claims.begin("a", ["c"])
    claims.begin("b", ["c"])
    claims.end("a", ["c"])
    for session in ("a", "b"):
        assert claims.protects(Publisher("c-1", "s", 1, 1, session, "", (b"x",)))
    assert not claims.protects(Publisher("d-1", "s", 1, 1, "a", "", (b"x",)))
    claims.drop("b")
    assert len(claims) == 0


def test_the_client_of_a_register_id_is_what_stands_before_its_last_dash() -> None:
    assert client_of("a-b-17") == "a-b"
    assert client_of("plain") == "plain"


def test_the_clients_of_a_session_process_that_is_back_are_not_lost() -> None:
    scene = Scene(clients=3)
    scene.session_dies(10.0)
    scene.held.process_is_back(GONE)
    assert scene.released(99.0) == set()
    assert len(scene.held) == 0


def test_what_was_sent_again_before_it_was_found_to_be_lost_is_not_held_and_shows_a_return() -> None:
    scene = Scene(clients=2)
    scene.put(record(1, incarnation=2, session="session-2@1"))
    scene.session_dies(10.0)
    assert len(scene.held) == 1
    returning = held_back.RETURNING * RULES.session_grace_seconds
    assert scene.released(10.0 + returning - 0.1) == set()
    assert scene.released(10.0 + returning) == {"client0"}


def test_registrations_that_have_ended_put_nothing_off() -> None:
    scene = Scene(clients=6)
    scene.session_dies(10.0)
    for client in range(3):
        scene.slot.store.purge("s0", f"client{client}-0")
    assert scene.released(13.0) == {"client3", "client4", "client5"}
    assert len(scene.held) == 0


def test_however_many_have_come_back_the_others_are_put_off_once() -> None:
    scene = Scene(clients=6)
    scene.session_dies(10.0)
    for client in range(3):
        scene.slot.store.put(record(client, incarnation=2, session="session-2@1"), 0.0)
    assert scene.released(13.0) == set()
    assert len(scene.held) == 3
    assert scene.released(13.0 + held_back.RETURNING * RULES.session_grace_seconds) == {"client3", "client4", "client5"}


# --- the brake -------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from(["return", "claim", "end", "pass", "lose"]), st.integers(0, 9), st.floats(0.0, 20.0)),
        max_size=30,
    )
)
def test_nothing_claimed_is_released_and_everything_lost_is_released_in_the_end(
    steps: list[tuple[str, int, float]],
) -> None:
    """The twin keeps which clients are claimed and which came back; the brake allows two clients in a window."""
    rules = DataSettings(brake_few=2, brake_hold_seconds=30.0)
    scene = Scene(clients=10, services=2, rules=rules)
    scene.session_dies(0.0)
    now, claimed, back, left = 0.0, set[int](), set[int](), set[str]()
    for kind, client, seconds in steps:
        if kind == "return" and f"client{client}" not in left:
            scene.put(*[record(client, number, 2, "session-2@1") for number in range(2)], at=now)
            back.add(client)
        elif kind == "claim":
            scene.claim(client, now)
            claimed.add(client)
        elif kind == "end":
            scene.end_claim(client, now)
            claimed.discard(client)
        elif kind == "pass":
            now += seconds
        released = scene.released(now)
        assert not released & {f"client{n}" for n in claimed | back}
        left |= released
    for client in claimed:
        scene.end_claim(client, now)
    for _ in range(3):
        now += rules.brake_hold_seconds + rules.session_grace_seconds
        left |= scene.released(now)
    assert left == {f"client{client}" for client in range(10) if client not in back}
    assert len(scene.held) == 0


# --- an order freezes ends -------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.floats(0.0, 200.0), st.sampled_from(["die", "look", "return", "freeze", "thaw"])), max_size=30
    )
)
def test_nothing_is_released_while_an_order_freezes_ends(steps: list[tuple[float, str]]) -> None:
    scene, now, returned = Scene(clients=8), 0.0, 0
    for seconds, step in steps:
        now += seconds
        if step == "die":
            scene.session_dies(now)
        elif step == "return":
            scene.put(record(returned % 8, incarnation=2 + returned, session="session-2@1"), at=now)
            returned += 1
        elif step in ("freeze", "thaw"):
            scene.freeze(step == "freeze", now)
        released = scene.released(now)
        assert not (released and scene.brake.is_frozen)


def test_after_a_thaw_the_brake_has_the_whole_of_its_longest_time_again() -> None:
    scene = Scene(clients=100)
    scene.freeze(True, 0.0)
    scene.session_dies(10.0)
    assert scene.released(1_000.0) == set()
    scene.freeze(False, 1_000.0)
    hold = RULES.brake_hold_seconds
    assert scene.released(1_000.0 + hold - 0.1) == set()
    assert len(scene.released(1_000.0 + hold)) == 100


def test_after_a_thaw_few_are_released_at_once() -> None:
    scene = Scene(clients=3)
    scene.freeze(True, 0.0)
    scene.session_dies(10.0)
    assert scene.released(1_000.0) == set()
    scene.freeze(False, 1_000.0)
    assert len(scene.released(1_000.0)) == 3
