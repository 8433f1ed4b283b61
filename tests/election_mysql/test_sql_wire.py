"""A client's statements and their answers are told apart however the bytes arrive; a schedule stops the right ones."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.ports import Versioned
from slotreeve_chaos.sql_wire import MySqlWire, PostgresWire, Wire
from slotreeve_conformance.gaplessness import Change, gap
from slotreeve_conformance.sql_interleaving import orders
from slotreeve_conformance.sql_schedule import Moment, Schedule, Statement, Stop


def postgres(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


def mysql(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def texts(wire: Wire, data: bytes, size: int) -> list[str | None]:
    """What the client sent, read in pieces of this size."""
    found: list[str | None] = []
    for start in range(0, len(data), size):
        found += [request.text for request in wire.requests(data[start : start + size])]
    return found


def ends(wire: Wire, data: bytes, size: int) -> list[bool]:
    found: list[bool] = []
    for start in range(0, len(data), size):
        found += [answer.is_last for answer in wire.answers(data[start : start + size])]
    return found


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_postgresql_statements_are_known_by_their_text_also_when_they_were_prepared(size: int) -> None:
    start = (12).to_bytes(4) + (196608).to_bytes(4) + b"a\0b\0"
    once = postgres(b"P", b"\0SELECT 1\0\0\0") + postgres(b"B", b"\0\0") + postgres(b"E", b"") + postgres(b"S", b"")
    prepared = postgres(b"P", b"s1\0SELECT 2\0\0\0") + postgres(b"S", b"")
    again = postgres(b"B", b"\0s1\0") + postgres(b"E", b"") + postgres(b"S", b"")
    data = start + postgres(b"p", b"secret\0") + postgres(b"Q", b"COMMIT\0") + once + prepared + again
    wire = PostgresWire()
    assert texts(wire, data, size) == [None, None, "COMMIT", "SELECT 1", None, "SELECT 2"]
    answer = postgres(b"T", b"Z") + postgres(b"D", b"Z") + postgres(b"C", b"") + postgres(b"Z", b"I")
    assert ends(wire, answer, size) == [False, False, False, True]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_mysql_statements_are_known_by_their_text_and_their_answers_by_their_ends(size: int) -> None:
    wire = MySqlWire()
    assert texts(wire, mysql(1, b"log in") + mysql(0, b"\x0e") + mysql(0, b"\x03BEGIN"), size) == [None, None, "BEGIN"]
    assert ends(wire, mysql(1, b"\0\0\0"), size) == [True]
    assert texts(wire, mysql(0, b"\x03SELECT 1"), size) == ["SELECT 1"]
    end = b"\xfe\0\0\2\0"
    rows = [b"\1", b"column", end, b"\0", b"\xfe" + b"a value of more than eight bytes", end]
    data = b"".join(mysql(number, body) for number, body in enumerate(rows, 1))
    assert ends(wire, data, size) == [False, False, False, False, False, True]
    assert texts(wire, mysql(0, b"\x03SELECT 2"), size) == ["SELECT 2"]
    assert ends(wire, mysql(1, b"\xff\x01\x02"), size) == [True]


def test_a_rule_stops_the_statements_that_it_names_and_no_others() -> None:
    async def main() -> None:
        schedule = Schedule()
        rule = schedule.hold(Stop("a", "^commit", nth=2))
        assert schedule.meet(Statement("a", "COMMIT")) is None
        assert schedule.meet(Statement("b", "COMMIT")) is None
        assert schedule.meet(Statement("a", "COMMIT", Moment.ANSWER)) is None
        assert schedule.meet(Statement("a", "SELECT 'COMMIT'")) is None
        halt = schedule.meet(Statement("a", "COMMIT", connection=7))
        assert halt is not None
        assert await rule.reached() is halt
        assert schedule.meet(Statement("a", "COMMIT")) is None
        assert schedule.connection("a", "commit") == 0
        halt.cut()
        halt.go_on()
        assert not await halt.passes()
        schedule.cut(Stop(None, "x", times=None))
        lost = schedule.meet(Statement("a", "x"))
        assert lost is not None
        assert not await lost.passes()
        schedule.clear()
        schedule.delay(Stop(None, "x"), 0.001)
        late = schedule.meet(Statement("a", "x"))
        assert late is not None
        assert await late.passes()
        held = schedule.hold(Stop(None, "y"))
        waiting = schedule.meet(Statement("a", "y"))
        assert waiting is not None
        assert held.has_unread
        schedule.clear()
        assert await waiting.passes()

    asyncio.run(main())


def test_the_orders_of_two_nodes_are_all_ways_to_interleave_them() -> None:
    found = list(orders(3, 6))
    assert len(found) == len(set(found)) == 84
    assert {sum(order) for order in found} == {3}


@pytest.mark.parametrize(
    ("copy", "problem"),
    [
        ({"a": 1}, None),
        ({"a": 1, "b": 1}, None),
        ({"a": 2, "b": 1}, None),
        ({"b": 1}, "lacks or has another change of ['a']"),
        ({"a": 2}, "lacks or has another change of ['b']"),
        ({"c": 1}, "never committed"),
    ],
)
def test_a_copy_without_a_change_that_came_before_is_a_gap(copy: dict[str, int], problem: str | None) -> None:
    committed: list[Change] = [(1, "a", held(1)), (2, "b", held(1)), (3, "a", held(2))]
    found = gap(committed, "node", [{key: held(version) for key, version in copy.items()}])
    assert (found is None) if problem is None else (found is not None and problem in found)
    assert gap(committed, "node", [{"a": held(1), "b": held(1)}, {"a": held(1)}]) == (
        "node went back from revision 2 to 1"
    )
    assert gap([committed[0], committed[2]], "node", []) == "the database has revision 3 in the place of 2"


def held(version: int) -> Versioned:
    return Versioned(b"v", version, 1)
