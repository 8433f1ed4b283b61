"""The parts of the console that need no cluster."""

from __future__ import annotations

import random
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.data_info import short_name
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotFacts, SlotTable
from slotreeve.ports import Connection, Handler, Hello
from slotreeve_client.audience import AllClients
from slotreeve_client.condition import ClusterCondition
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_face_console.entries import entry_rows
from slotreeve_face_console.lag import lagging, named
from slotreeve_face_console.losses import KEPT_MS, ServiceLosses
from slotreeve_face_console.notes import differences
from slotreeve_face_console.rendering import Rendering, age_text, service_path, version_text
from slotreeve_face_console.server_rows import ServerRow
from slotreeve_face_console.service_topics import SubscriberRow, page_of
from slotreeve_face_console.slot_states import ServerNumbers, slot_states
from slotreeve_face_console.topics import Regions, changes
from slotreeve_face_console.watch import ConsoleWatch
from slotreeve_gateway import ClusterServers
from slotreeve_protocol.client_messages import Scope
from slotreeve_protocol.meta_messages import ConfigEntry, MemberIs, Members, View
from slotreeve_protocol.people_messages import ClientIs, SubscriberIs
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

PIECES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2"]), max_size=6)
REGIONS = st.fixed_dictionaries({"one": PIECES, "two": PIECES})


def node(name: str, role: Role = Role.DATA, start: int = 1) -> Node:
    return Node(name, role, f"{name}:1", f"{name}@{start}")


def condition(
    *places: tuple[str | None, tuple[str, ...]],
    data: str = "abc",
    epoch: int = 1,
    unsettled: dict[str, list[int]] | None = None,
) -> ClusterCondition:
    slots = tuple(Slot(number, leader, 1, followers) for number, (leader, followers) in enumerate(places))
    nodes = [node(name) for name in data]
    view = View(1, epoch, SlotTable(epoch, slots), nodes, [], SlotFacts(len(slots), 2, "crc32c"))
    members = [MemberIs(each, 1, 0.0, unsettled=(unsettled or {}).get(each.name, [])) for each in nodes]
    return ClusterCondition([], Members(0, members, [], view), view)


@given(before=REGIONS, after=REGIONS)
def test_the_changes_make_the_new_state_out_of_the_old_one(before: Regions, after: Regions) -> None:
    made = {region: dict(pieces) for region, pieces in before.items()}
    for region, change in changes(before, after).items():
        found, order = change.get("set", {}), change.get("order")
        assert isinstance(found, dict)
        pieces = {**made[region], **found}
        made[region] = {key: pieces[key] for key in order} if isinstance(order, list) else pieces
    assert {region: list(pieces.items()) for region, pieces in made.items()} == {
        region: list(pieces.items()) for region, pieces in after.items()
    }


@given(before=REGIONS)
def test_what_did_not_change_is_not_sent(before: Regions) -> None:
    assert changes(before, {region: dict(pieces) for region, pieces in before.items()}) == {}


def test_slots_are_counted_once_as_the_worst() -> None:
    states = slot_states(
        condition(
            *(("a", ("b",)), ("a", ("c",)), ("b", ()), ("c", ("a",)), (None, ()), ("z", ("a",))),
            unsettled={"c": [1, 3, 4]},
        ),
        ServerNumbers(),
    )
    assert states.kinds == {"whole": 1, "copying": 1, "thin": 1, "settling": 1, "lost": 2}
    assert list(states.cells.values()) == ["0,1", "0,2c", "1", "2,0s", "-1", "3,0g"]
    assert states.not_serving == 3
    assert states.leads == {"a": 2, "b": 1, "c": 1, "z": 1}


def test_a_server_keeps_its_number_when_another_one_leaves() -> None:
    numbers = ServerNumbers()
    slot_states(condition(("a", ("b",)), data="abc"), numbers)
    states = slot_states(condition(("c", ("b",)), data="bcd"), numbers)
    assert states.cells == {"0": "2,1"}
    assert numbers.numbers == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_the_differences_of_two_conditions_are_sentences() -> None:
    before = condition(("a", ("b",)), ("a", ("c",)), ("b", ("c",)))
    after = condition(("b", ("c",)), ("c", ("b",)), ("b", ("c",)), data="bcd", epoch=2)
    assert differences(before, after) == [
        "data server d joined.",
        "2 slots that a led went to b, c (slot table 2).",
    ]
    assert differences(before, before) == []
    assert differences(condition(data="a"), after)[-1] == "The first slot table was made, with 3 slots."


def test_losses_last_until_the_instances_are_back_or_an_hour_has_passed() -> None:
    losses = ServiceLosses()
    for index, (at_ms, counts) in enumerate(
        [(0, {"s": 3, "t": 1}), (10, {"s": 2, "t": 1}), (20, {"s": 1}), (30, {})], 1
    ):
        losses.note(index, counts, at_ms)
    assert {name: (loss.before, loss.now) for name, loss in losses.found.items()} == {"t": (1, 0), "s": (3, 0)}
    losses.note(5, {"s": 3}, 40)
    assert set(losses.found) == {"t"}
    losses.note(5, {"s": 3}, 20 + KEPT_MS + 1)
    assert not losses.found


def test_who_lags_is_told_in_sentences() -> None:
    seen = ClusterCondition(
        [], held={"s-1": {"clients_behind": 2, "clients_late": 1, "writes_waiting": 1}, "s-2": {"clients_waiting": 3}}
    )
    assert lagging(seen) == [
        "2 clients of s-1 read more slowly than the services change.",
        "1 client of s-1 runs its callbacks late.",
        "1 write of s-1 waits for the leader of its slot.",
        "3 clients wait until s-2 has time.",
    ]
    clients = AllClients(
        {"s-1": [ClientIs("c-1", "h:1", 1, 0, 0, 5, 7), ClientIs("c-2", "h:2", 1, 0, 0, 5, 0, late_seconds=3.6)]}, {}
    )
    assert named(clients) == [
        "Client c-1 at h:1 has not read 7 pushes of s-1.",
        "Client c-2 at h:2 runs its callbacks 4 s late; it is at s-1.",
    ]


@pytest.mark.parametrize(
    ("sent", "unread", "late", "state"),
    [(5, 0, 0.9, "current"), (5, 0, 1.0, "late"), (4, 0, 9, "behind"), (5, 1, 9, "behind"), (0, 0, 9, "waits for its")],
)
def test_a_subscriber_is_late_where_it_has_the_newest_version_and_does_not_use_it(
    sent: int, unread: int, late: float, state: str
) -> None:
    row = SubscriberRow("s-1", SubscriberIs("c", "h:1", Scope.ZONE, sent, unread, late), 5)
    assert row.state.startswith(state)


@pytest.mark.parametrize(
    "key", ["db.password", "API_KEY", "api-key", "a.token", "my.secret", "credentials", "private.x"]
)
def test_values_are_hidden_whose_keys_read_like_secrets(key: str) -> None:
    [row] = entry_rows([ConfigEntry(key, b"hunter2", 1)])
    assert not row.text
    assert "secret" in row.note


@pytest.mark.parametrize("key", ["limits.checkout", "monkey", "keyboard"])
def test_other_values_are_shown(key: str) -> None:
    [row] = entry_rows([ConfigEntry(key, b"5", 1)])
    assert row.text == "5"


def test_long_values_are_cut() -> None:
    [row] = entry_rows([ConfigEntry("long", b"x" * 100_000, 1)])
    assert (len(row.text), row.size) == (2_001, 100_000)


@pytest.mark.parametrize(
    ("state", "tone"),
    [
        *(("well", "good"), ("leads", "good"), ("copying 3 slots", "soon"), ("draining, copying 1 slot", "soon")),
        *(("silent for 3.0 s", "bad"), ("copying 3 slots, does not answer", "bad"), ("banned", "bad")),
    ],
)
def test_a_state_has_a_tone(state: str, tone: str) -> None:
    assert ServerRow("a", "data", state, "a:1").tone == tone


@given(asked=st.integers(0, 999), total=st.integers(0, 999))
def test_every_page_of_a_list_is_there(asked: int, total: int) -> None:
    page = page_of(asked, 100, total)
    assert 1 <= page.number <= page.last
    assert len(range(total)[page.shown]) > 0 or total == 0


def test_words_and_numbers() -> None:
    assert version_text((3 << 32) + 7) == "3.7"
    assert [age_text(seconds) for seconds in (-1, 5.4, 300, 20_000)] == ["0 s", "5 s", "5 min", "6 h"]
    assert short_name("a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP") == "a"
    assert service_path("a/b#@#x#@#y") == "/ui/services/a%2Fb%23%40%23x%23%40%23y"
    assert short_name("no#@#name") == "no#@#name"


def test_every_template_can_be_read() -> None:
    rendering = Rendering("a cluster", True)
    for template in (files("slotreeve_face_console") / "templates").iterdir():
        rendering._templates.get_template(template.name)


class BrokenTransport(MemoryTransport):
    """A transport of a third party with a defect."""

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        """Raises what no transport should raise."""
        raise ZeroDivisionError("a defect")


def test_a_defect_while_the_cluster_is_read_is_logged_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_rng: random.Random) -> None:
        clock = VirtualClock()
        servers = ClusterServers(BrokenTransport(clock, "gateway", MemoryNetwork()), "slotreeve", ("meta-1:1",))
        watch = ConsoleWatch(servers, clock, 1.0)
        await watch.read()
        assert watch.trouble is not None
        assert watch.trouble.why == "the gateway has failed; its log says why"
        assert "ZeroDivisionError" in caplog.text

    run(scenario)
