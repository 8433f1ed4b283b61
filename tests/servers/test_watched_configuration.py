"""A session server's copy of the provided configuration: who is told which entries, and when."""

from __future__ import annotations

from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve_protocol.meta_messages import MOST_KEYS, NOT_SHOWN, ConfigEntry, Configs
from slotreeve_protocol.overrides import OVERRIDES_KEY
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.configuration import ConfigMirror
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox

LIMIT, OWN = "limits.checkout", "slotreeve.limits"


class Scene:
    def __init__(self, rules: SessionSettings | None = None) -> None:
        self.outbox = RecordingOutbox()
        self.mirror = ConfigMirror(self.outbox, ClientLimits(rules or SessionSettings()))

    def told(self, client: ConnectedClient) -> list[tuple[str, int]]:
        """The entries that a client was sent since this was asked before, with their versions."""
        mine = [effect for effect in self.outbox.effects if effect.peer is client.peer]
        self.outbox.effects = [effect for effect in self.outbox.effects if effect not in mine]
        sent = [effect.what for effect in mine if isinstance(effect.what, Configs)]
        return [(entry.key, entry.version) for message in sent for entry in message.entries]


def client(name: str, role: Role | None = None) -> ConnectedClient:
    """``role``: what its key is for; None where no keys are used."""
    proven = None if role is None else Principal(name, role, name)
    return ConnectedClient(Peer(name, Role.CLIENT, f"{name}@1", proven=proven))


def entry(version: int, key: str = LIMIT) -> ConfigEntry:
    return ConfigEntry(key, b"100", version)


def test_who_watches_a_key_is_told_what_is_newer_than_it_knows() -> None:
    scene = Scene()
    scene.mirror.load([entry(3)])
    for known, told in ((0, [(LIMIT, 3)]), (2, [(LIMIT, 3)]), (3, []), (4, [])):
        watcher = client(f"knows-{known}")
        scene.mirror.watch(watcher, {LIMIT: known})
        assert scene.told(watcher) == told
    scene.mirror.apply([entry(4)])
    assert scene.told(watcher) == [(LIMIT, 4)]


def test_who_knows_nothing_of_a_key_without_a_value_is_told_so_once_the_entries_are_known() -> None:
    scene, early, late, old = Scene(), client("early"), client("late"), client("old")
    scene.mirror.watch(early, {LIMIT: 0})
    assert scene.told(early) == [], "there may be a value"
    scene.mirror.load([])
    scene.mirror.watch(late, {LIMIT: 0})
    scene.mirror.watch(old, {LIMIT: 7})
    assert (scene.told(early), scene.told(late), scene.told(old)) == ([(LIMIT, 0)], [(LIMIT, 0)], [])


def test_what_was_told_once_is_not_told_again_with_each_copy_of_all_entries() -> None:
    scene, watcher = Scene(), client("one")
    scene.mirror.watch(watcher, {LIMIT: 0, "other": 0})
    assert scene.mirror.load([entry(1)]) == [entry(1)]
    assert sorted(scene.told(watcher)) == [(LIMIT, 1), ("other", 0)]
    assert scene.mirror.load([entry(1)]) == []
    assert scene.told(watcher) == []
    scene.mirror.begin_anew()
    assert scene.mirror.load([]) == [ConfigEntry(LIMIT, None, 0)], "there was one in the former era"
    assert scene.mirror.load([]) == []


def test_those_who_watch_on_are_told_although_another_one_does_no_more() -> None:
    scene, one, two = Scene(), client("one"), client("two")
    for watcher in (one, two):
        scene.mirror.watch(watcher, {LIMIT: 0, "other": 0})
    scene.mirror.unwatch(one, [LIMIT])
    scene.mirror.unwatch(one, ["what it never watched"])
    scene.mirror.load([entry(1), entry(1, "other")])
    assert sorted(scene.told(two)) == [(LIMIT, 1), ("other", 1)]
    assert scene.told(one) == [("other", 1)]


def test_only_gateways_and_tools_read_what_is_slotreeves_own_where_there_are_keys() -> None:
    scene = Scene()
    scene.mirror.load([entry(1, OWN), entry(1, OVERRIDES_KEY), entry(1)])
    for role, hidden in ((Role.CLIENT, True), (Role.GATEWAY, False), (None, False)):
        watcher = client("reader", role)
        scene.mirror.watch(watcher, {OWN: 0, OVERRIDES_KEY: 0, LIMIT: 0})
        version = NOT_SHOWN if hidden else 1
        assert sorted(scene.told(watcher)) == sorted([(OWN, version), (OVERRIDES_KEY, 1), (LIMIT, 1)])
        scene.mirror.apply([entry(2, OWN)])
        assert scene.told(watcher) == ([] if hidden else [(OWN, 2)])
        scene = Scene()
        scene.mirror.load([entry(1, OWN), entry(1, OVERRIDES_KEY), entry(1)])


def test_a_key_too_many_is_not_shown_and_one_that_is_given_up_makes_room() -> None:
    scene, watcher = Scene(SessionSettings(most_subscriptions=3)), client("one")
    scene.mirror.load([])
    scene.mirror.watch(watcher, {f"key-{number}": 0 for number in range(3)})
    assert [version for _, version in scene.told(watcher)] == [0] * 3
    scene.mirror.watch(watcher, {"key-0": 0, OVERRIDES_KEY: 0, "one more": 0})
    assert scene.told(watcher) == [("key-0", 0), (OVERRIDES_KEY, 0), ("one more", NOT_SHOWN)]
    scene.mirror.unwatch(watcher, ["key-0"])
    scene.mirror.watch(watcher, {"one more": 0})
    assert scene.told(watcher) == [("one more", 0)]


def test_nobody_watches_more_keys_than_one_message_may_name() -> None:
    scene, watcher = Scene(SessionSettings(most_subscriptions=2 * MOST_KEYS)), client("one")
    watcher.configs.update(f"key-{number}" for number in range(MOST_KEYS - 1))
    scene.mirror.load([])
    scene.mirror.watch(watcher, {OVERRIDES_KEY: 0, "the last": 0, "one more": 0})
    assert scene.told(watcher) == [(OVERRIDES_KEY, 0), ("the last", 0), ("one more", NOT_SHOWN)]
