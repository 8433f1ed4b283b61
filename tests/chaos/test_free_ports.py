"""Two servers on one machine never get the same port, whoever chose first."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest
from slotreeve_harness.free_ports import STRIDE, USED_PORTS, PortClaims, free_ports

ALONE, ALONE_MANY, ALONE_IN_USE = (10_000, 11_000), (11_000, 12_000), 12_000
"""Below the ports that servers of tests get: other tests, which run at the same time, take none of these."""


@pytest.fixture
def claims() -> Iterator[list[PortClaims]]:
    both = [PortClaims(), PortClaims()]
    yield both
    for each in both:
        each.close()


def test_one_seed_drawn_twice_gives_other_ports_before_any_server_listens() -> None:
    first = free_ports(20, random.Random(7))
    second = free_ports(20, random.Random(7))
    assert len({*first, *second}) == 40
    assert all(port % STRIDE == 0 for port in (*first, *second))


def test_a_group_that_one_process_claimed_is_refused_to_another_until_it_is_given_back(
    claims: list[PortClaims],
) -> None:
    port = next(port for port in range(*ALONE, STRIDE) if claims[0].take(port))
    assert not claims[1].take(port)
    claims[0].close()
    assert claims[1].take(port)


@pytest.mark.parametrize("above", range(USED_PORTS))
def test_a_group_with_one_port_in_use_is_refused(claims: list[PortClaims], above: int) -> None:
    mine, other = claims
    begin = ALONE_IN_USE + 500 * above
    port = next(port for port in range(begin, begin + 500, STRIDE) if mine.take(port))
    with socket.socket() as user:
        user.bind(("127.0.0.1", port + above))
        mine.close()
        assert not other.take(port)


def test_old_claims_are_given_back_so_that_no_process_runs_out_of_files(claims: list[PortClaims]) -> None:
    few, other = PortClaims(limit=3), claims[0]
    try:
        taken = [port for port in range(*ALONE_MANY, STRIDE) if few.take(port)]
        assert len(taken) > 100
        assert [port for port in taken if other.take(port)] == taken[:-3]
    finally:
        few.close()
