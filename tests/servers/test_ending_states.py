"""The states of a registration that may end: the page draws what the servers act by, and a twin agrees over whole lives
of clients."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.slot_messages import Changed, SlotWrite
from slotreeve_servers.data.endings.ending import TRANSITIONS, EndingEvent, EndingState
from slotreeve_servers.data.endings.endings import RETURNING
from slotreeve_servers.data.endings.presence import FEW_CLIENTS, client_of
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.outbox import Peer

from tests.servers.endings_scene import SESSION_1, SESSION_2, EndingsScene
from tests.servers.recording_outbox import a_peer

# --- the picture -----------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs/endings.md").read_text()


def test_the_page_draws_every_transition_and_no_other() -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+): ([\w ]+)$", PAGE, re.MULTILINE)
    assert sorted(drawn) == sorted((before, after, event) for (before, event), after in TRANSITIONS.items())


def test_the_page_explains_every_event() -> None:
    assert set(re.findall(r"^\| ([\w ]+) \| [A-Z]", PAGE, re.MULTILINE)) >= set(EndingEvent)


def test_every_state_is_reached_and_all_but_the_end_are_left() -> None:
    assert set(TRANSITIONS.values()) == set(EndingState)
    assert {before for before, _ in TRANSITIONS} == set(EndingState) - {EndingState.ENDED}


# --- a twin ----------------------------------------------------------------------------------------------------------

GRACE = DataSettings().session_grace_seconds
SESSION_3 = a_peer("session-3", Role.SESSION)
CLIENTS = 12
STEPS = {
    "publish": 6,
    "lose": 5,
    "say": 1,
    "elsewhere": 2,
    "arrive": 4,
    "arrived": 5,
    "left": 2,
    "kill": 1,
    "back": 1,
    "mute": 1,
    "turn": 6,
    "pass": 8,
}
"""What may happen next, and how often as compared with the others."""
SLACK = 0.6
"""The leader notices some things so much later than they happen."""


@dataclass
class Life:
    """What the twin knows of one client: facts, and no state."""

    record: Publisher | None = None
    at: Peer | None = None
    incarnation: int = 0
    lost_at: float | None = None
    said: bool = False


class Twin(EndingsScene):
    """Plays with clients of three session servers, and checks every end against a list of facts."""

    def __init__(self, rules: DataSettings) -> None:
        super().__init__(rules=rules)
        self.view(SESSION_1, SESSION_2, SESSION_3)
        self.sessions.opened(SESSION_3)
        self.lives = {f"c{number}": Life() for number in range(CLIENTS)}
        self.living = [SESSION_1, SESSION_2, SESSION_3]
        self.arriving: dict[str, set[Peer]] = {name: set() for name in self.lives}
        self.died_at: dict[str, float] = {}
        self.returned_at: dict[str, float] = {}
        self.left_at: dict[str, float] = {}
        self.early: list[str] = []
        self.reported: list[Publisher] = []
        self.told: list[Publisher] = []
        self.links: dict[Peer, Peer] = {}

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: object = None) -> None:
        before = {one.register_id: one for one in slot.store.records()}
        super().store(slot, write)
        for register_id in before.keys() - {one.register_id for one in slot.store.records()}:
            if not self.is_due(client_of(register_id)):
                self.early.append(f"{register_id} ended at {self.now}: {self.lives[client_of(register_id)]}")

    def is_due(self, name: str) -> bool:
        """Whether what the slot has of a client may end now."""
        life = self.lives[name]
        assert life.at is not None
        if life.said:
            return True
        if self.arriving[name]:
            return False
        gone_at = self.died_at.get(life.at.process_id)
        if life.lost_at is None and gone_at is None:
            return False
        if gone_at is not None and life.lost_at is None:
            returned = self.returned_at.get(life.at.process_id)
            return self.now >= (gone_at + GRACE if returned is None else max(gone_at, returned) + RETURNING * GRACE)
        assert life.lost_at is not None
        lately = sum(at > self.now - 2 * GRACE + SLACK for at in self.left_at.values())
        return self.now >= life.lost_at + (GRACE if lately > FEW_CLIENTS else 0.0)

    def hears(self) -> None:
        """Session servers are told what is over: the slot has it no more, or a newer one, or its client has said that
        it leaves, so that its session server keeps no copy."""
        for effect in self.outbox.take("sent"):
            if isinstance(effect.what, Changed):
                for tombstone in effect.what.over:
                    found = self.slot.store.find(tombstone)
                    is_held = found is not None and not found.newer_than(tombstone)
                    if is_held and not self.lives[client_of(tombstone.register_id)].said:
                        self.early.append(f"{tombstone} is told to be over at {self.now}")
                    self.told.append(tombstone)

    # --- steps -------------------------------------------------------------------------------------------------------

    def publishes(self, name: str, at: Peer) -> None:
        """A client sends its record over a new connection."""
        life = self.lives[name]
        self.notes_return(name)
        life.incarnation += 1
        life.record = Publisher(f"{name}-0", "s", 1, life.incarnation, at.process_id, "", (b"x",))
        life.at, life.lost_at, life.said = at, None, False
        self.put(life.record)

    def notes_return(self, name: str) -> None:
        """Others of a process that is gone have longer once one of them is back, unless that one has said that it
        leaves."""
        life = self.lives[name]
        is_lost = life.at is not None and life.at.process_id in self.died_at and life.lost_at is None and not life.said
        if is_lost and life.record in self.held:
            assert life.at is not None
            self.returned_at[life.at.process_id] = self.now

    @property
    def held(self) -> list[Publisher]:
        return list(self.slot.store.records())

    def loses(self, name: str) -> None:
        life = self.lives[name]
        if life.record in self.held and life.at in self.living and life.lost_at is None and not life.said:
            life.lost_at = self.left_at[name] = self.now
            assert life.record is not None
            self.reported.append(life.record)
            self.lost_clients.reported(self.slot, [life.record])

    def says(self, name: str) -> None:
        life = self.lives[name]
        if life.record in self.held and life.at in self.living:
            assert life.record is not None
            life.said = True
            self.say(life.record)

    def says_elsewhere(self, name: str, at: Peer, incarnation: int) -> None:
        """A client that moves says it to another session server than that of its record: there it was before, or will
        never have been. The record ends by what happens to its own."""
        life = self.lives[name]
        if life.record is not None and life.at is not at:
            life.incarnation = max(life.incarnation, incarnation)
            self.say(Publisher(f"{name}-0", "s", 1, incarnation, at.process_id, "", (b"x",)))

    def arrives(self, name: str, at: Peer) -> None:
        if not self.arriving[name]:
            self.notes_return(name)
        self.arriving[name].add(at)
        self.tell(at, arriving=[name])

    def arrived_at(self, name: str, at: Peer) -> None:
        if at in self.arriving[name]:
            self.arriving[name].discard(at)
            if not self.arriving[name]:
                self.notes_return(name)
            self.tell(at, arrived=[name])

    def leaves(self, name: str, at: Peer) -> None:
        self.left_at[name] = self.now
        self.tell(at, left=(name,))

    def kill(self, at: Peer) -> None:
        if at in self.living and len(self.living) > 1:
            self.living.remove(at)
            for name, where in self.arriving.items():
                if at in where:
                    where.discard(at)
                    if not where:
                        self.notes_return(name)
            self.died_at[at.process_id] = self.now
            for name, life in self.lives.items():
                if life.at is at and life.record in self.held:
                    self.left_at[name] = self.now
                    if self.arriving[name]:
                        self.notes_return(name)
            self.dies(at, *self.living)
            self.outbox.end_turn()  # what it had is searched by then

    def tell(
        self, peer: Peer, arriving: Iterable[str] = (), arrived: Iterable[str] = (), left: tuple[str, ...] = ()
    ) -> None:
        super().tell(self.links.get(peer, peer), arriving, arrived, left)

    def is_back(self, at: Peer, linked_first: bool) -> None:
        """A session process that was gone had only been cut off: it vouches for all that it has."""
        del self.died_at[at.process_id]
        self.returned_at.pop(at.process_id, None)
        self.living.append(at)
        if linked_first:
            self.links[at] = self.links_again(at)
        self.view(*self.living)
        if not linked_first:
            self.links[at] = self.links_again(at)
        for life in self.lives.values():
            if life.at is at and life.record is not None and life.lost_at is None and not life.said:
                self.put(life.record)  # what has ended meanwhile is found by the comparison on linking
        kept = [one for one in self.reported if one.session == at.process_id and one.tombstone() not in self.told]
        self.lost_clients.reported(self.slot, kept)

    def step(self, rng: random.Random) -> None:
        """One thing happens."""
        name, at = rng.choice(sorted(self.lives)), rng.choice(self.living)
        what = rng.choices(list(STEPS), list(STEPS.values()))[0]
        match what:
            case "publish":
                self.publishes(name, at)
            case "lose":
                self.loses(name)
            case "say":
                self.says(name)
            case "elsewhere":
                self.says_elsewhere(name, at, self.lives[name].incarnation + rng.choice([-1, 1]))
            case "arrive":
                self.arrives(name, at)
            case "arrived":
                self.arrived_at(name, at)
            case "left":
                self.leaves(name, at)
            case "kill" if rng.random() < 0.3:
                self.kill(at)
            case "back" if self.died_at:
                gone = rng.choice([peer for peer in (SESSION_1, SESSION_2, SESSION_3) if peer not in self.living])
                self.is_back(gone, rng.random() < 0.5)
            case "mute":
                self.answers = not self.answers
            case "turn":
                self.outbox.end_one_turn()
            case _:
                self.until(self.now + rng.choice([0.05, 0.3, 1.0, 4.0]))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(5, 60), st.sampled_from([1, 1_000]))
def test_nothing_ends_that_a_list_of_facts_keeps_and_everything_else_ends(seed: int, steps: int, few: int) -> None:
    rng = random.Random(seed)
    rules = DataSettings(brake_few=few, brake_share=0.0, brake_hold_seconds=rng.choice([0.0, 1.0, 20.0]))
    twin = Twin(rules)
    twin.outbox.turn_steps = rng.choice([1, 3, 1_000_000])
    for _ in range(steps):
        twin.step(rng)
        twin.hears()
        assert twin.early == []
    twin.answers = True
    for name in twin.lives:
        for at in list(twin.arriving[name]):
            twin.arrived_at(name, at)
    twin.until(twin.now + 5 * RETURNING * GRACE + rules.brake_hold_seconds)
    twin.hears()
    assert twin.early == []
    assert {one.session for one in twin.told} <= {peer.process_id for peer in (SESSION_1, SESSION_2, SESSION_3)}
    linked = {peer.process_id for peer in twin.sessions.connections}
    assert {str(one.tombstone()) for one in twin.reported if one.session in linked} <= {str(one) for one in twin.told}
    gone = twin.died_at.keys()
    kept = {
        name
        for name, life in twin.lives.items()
        if life.at is not None and life.lost_at is None and not life.said and life.at.process_id not in gone
    }
    assert {client_of(register_id) for register_id in twin.left} == kept
    assert twin.endings.held == twin.slot.leaving == 0
