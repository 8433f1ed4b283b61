"""The leases of clients: none is overlooked, and a look costs only those that may be over."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.leases import HERD, HERD_LEASES, PINGS_PER_SECOND, RENEWALS, ClientLeases

from tests.servers.recording_outbox import a_peer

LEASE_SECONDS = 2.0


@settings(derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.1, 0.3, 0.7])), max_size=80))
def test_a_client_is_due_in_the_first_look_after_its_lease_whatever_arrived_before(
    steps: list[tuple[int, float]],
) -> None:
    leases, now = ClientLeases(LEASE_SECONDS), 0.0
    heard = {ConnectedClient(a_peer(str(n), Role.CLIENT)): 0.0 for n in range(5)}
    clients = list(heard)
    for client in clients:
        leases.renewed(client, now)
    for number, pause in steps:
        now += pause
        due = list(iter(partial(leases.due, now), None))
        assert {client for client, at in heard.items() if at + LEASE_SECONDS < now} <= set(due)
        assert len(due) == len(set(due))
        for client in due:
            if heard[client] + LEASE_SECONDS < now:
                heard.pop(client)
            else:
                leases.renewed(client, heard[client])
        assert leases.due(now) is None
        if clients[number] in heard:
            heard[clients[number]] = now


def test_a_client_that_does_not_read_has_the_rest_of_its_lease_to_come_back_and_the_linger_at_least() -> None:
    leases, client = ClientLeases(10.0), ConnectedClient(a_peer("a", Role.CLIENT))
    assert leases.left(client, 0.3) == 0.3  # it, or the network, ended the connection
    client.peer.silence_at_close = 4.0
    assert leases.left(client, 0.3) == 6.0
    client.rest_seconds = 2.0  # it was asked for a ping so late
    assert leases.left(client, 0.3) == 8.0
    client.peer.silence_at_close = 12.0
    assert leases.left(client, 0.3) == 0.3


def test_a_client_has_the_pause_that_it_has_told_beside_the_linger_but_no_more_than_its_lease() -> None:
    leases, client = ClientLeases(10.0), ConnectedClient(a_peer("a", Role.CLIENT))
    client.peer.pause_seconds = 0.5
    assert leases.left(client, 0.3) == 0.8
    client.peer.silence_at_close = 9.9
    assert leases.left(client, 0.3) == 0.8
    client.peer.pause_seconds = 1e9
    assert leases.left(client, 0.3) == 10.3


def test_a_client_whose_key_was_taken_away_has_the_linger_and_no_more_whatever_it_has_said() -> None:
    leases, client = ClientLeases(10.0), ConnectedClient(a_peer("a", Role.CLIENT))
    client.has_given_up, client.peer.pause_seconds, client.peer.is_expelled = True, 1e9, True
    assert leases.left(client, 0.3) == 0.3


def test_a_look_at_clients_that_were_just_renewed_looks_at_none() -> None:
    leases = ClientLeases(LEASE_SECONDS)
    for number in range(1_000):
        leases.renewed(ConnectedClient(a_peer(str(number), Role.CLIENT)), 10.0)
    assert leases.due(10.0 + LEASE_SECONDS) is None
    assert len(list(iter(partial(leases.due, 10.1 + LEASE_SECONDS), None))) == 1_000


def test_few_clients_ping_at_their_own_interval_and_many_only_as_often_as_their_leases_need() -> None:
    leases, client = ClientLeases(10.0), ConnectedClient(a_peer("a", Role.CLIENT))
    assert leases.ask(client, 10, 0, 100.0) == 10 / PINGS_PER_SECOND
    assert leases.ask(client, 2 * PINGS_PER_SECOND, 0, 100.0) == 2.0
    assert leases.ask(client, 10**6, 0, 100.0) == 10.0 / RENEWALS
    assert leases.ask(client, 10, 1, 100.0) == 10.0 / RENEWALS
    assert client.rest_seconds == 10.0 / RENEWALS


@pytest.mark.parametrize("is_coming", [False, True])
def test_the_pings_of_a_herd_that_moves_are_few_and_spread_so_that_some_notice_a_frozen_server_early(
    is_coming: bool,
) -> None:
    leases = ClientLeases(10.0)
    clients = [ConnectedClient(a_peer(str(number), Role.CLIENT)) for number in range(1_000)]
    for number, client in enumerate(clients):
        leases.came(client, 100.0 + number / 1_000)
    now, waiting = (102.0, 0) if is_coming else (200.0, 100)
    waits = sorted(leases.ask(client, len(clients), waiting, now) for client in clients)
    assert waits == sorted(client.rest_seconds for client in clients)
    assert 10.0 / RENEWALS <= waits[0] < 3.4
    assert HERD_LEASES * 10.0 - 0.1 < waits[-1] <= HERD_LEASES * 10.0
    assert max(later - earlier for earlier, later in pairwise(waits)) < 0.05
    assert leases.ask(clients[0], len(clients), 0, 200.0) == len(clients) / PINGS_PER_SECOND


def test_clients_that_come_one_by_one_are_no_herd() -> None:
    leases, client = ClientLeases(10.0), ConnectedClient(a_peer("a", Role.CLIENT))
    for number in range(2 * HERD):
        leases.came(client, number * 11.0 / HERD)
    assert leases.ask(client, 2 * HERD, 0, 22.0) == 2 * HERD / PINGS_PER_SECOND


def test_a_client_that_was_asked_for_a_ping_late_is_asked_for_the_next_one_early_again() -> None:
    leases, client = ClientLeases(LEASE_SECONDS), ConnectedClient(a_peer("a", Role.CLIENT))
    while client.rest_seconds < LEASE_SECONDS:  # a herd comes
        leases.ask(client, HERD, 1, 0.0)
    leases.ask(client, 1, 0, 0.0)
    assert client.rest_seconds == 1 / PINGS_PER_SECOND
