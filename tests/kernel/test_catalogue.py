"""Finding, choosing and building plugins."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from slotreeve import catalogue
from slotreeve.catalogue import Catalogue, build_plugin
from slotreeve.clock import LoopClock
from slotreeve.errors import PluginError
from slotreeve.model.nodes import Node, Role
from slotreeve.offers import Port
from slotreeve.ports import Context, SlotFunction

GOOD = """
from slotreeve.hookspecs import hookimpl
from slotreeve.offers import Offer, Options

class Modulo:
    def slot_of(self, key):
        return len(key) % 4

class Choice(Options):
    factor: int = 1

@hookimpl
def slotreeve_slot_functions():
    return [Offer("{name}", lambda options, context: Modulo(), "by length", Choice)]
"""
MISSPELT = """
from slotreeve.hookspecs import hookimpl

@hookimpl
def slotreeve_slot_function():
    return []
"""
INCOMPLETE = """
from slotreeve.hookspecs import hookimpl
from slotreeve.offers import Offer

@hookimpl
def slotreeve_slot_functions():
    return [Offer("{name}", lambda options, context: object(), "builds nothing useful")]
"""
FAILING = """
from slotreeve.hookspecs import hookimpl
from slotreeve.offers import Offer

def build(options, context):
    raise KeyError("colour")

@hookimpl
def slotreeve_slot_functions():
    return [Offer("{name}", build, "fails")]
"""
NOT_AN_OFFER = """
from slotreeve.hookspecs import hookimpl

@hookimpl
def slotreeve_slot_functions():
    return ["{name}"]
"""
FROM_THE_FUTURE = """
from slotreeve.hookspecs import hookimpl
from slotreeve.offers import Offer

@hookimpl
def slotreeve_slot_functions():
    return [Offer("{name}", lambda options, context: None, "newer", api_version=(2, 0))]
"""
OBSERVING = """
from slotreeve.hookspecs import hookimpl

calls = []

@hookimpl
def slotreeve_node_left(node, reason):
    calls.append((node.name, reason))

@hookimpl
def slotreeve_node_joined(node):
    raise RuntimeError("not today")
"""

Install = Callable[[str, str], EntryPoint]


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    """Writes a plugin module and returns its entry point."""
    sys.path.insert(0, str(tmp_path))
    written = []

    def write(name: str, source: str) -> EntryPoint:
        module = f"plugin_under_test_{name}"
        (tmp_path / f"{module}.py").write_text(source.replace("{name}", name))
        written.append(module)
        return EntryPoint(name, module, "slotreeve")

    yield write
    sys.path.remove(str(tmp_path))
    for module in written:
        sys.modules.pop(module, None)


class NoClock(LoopClock):
    """A clock for plugins that use none; it needs no event loop."""

    def __init__(self) -> None:
        pass


def find_and_build(catalogue: Catalogue, name: str) -> object:
    entry = catalogue.find(Port.SLOT_FUNCTION, name, "slot_function.use (cluster.toml)")
    return catalogue.build(entry, catalogue.options(entry, {}), Context("c", 4, NoClock(), random.Random(1)))


def test_the_built_in_plugins_are_found_by_entry_points_as_third_party_plugins_are() -> None:
    catalogue = Catalogue.load()
    assert catalogue.broken == []
    assert catalogue.names(Port.SLOT_FUNCTION) == ["crc32c", "md5"]
    assert catalogue.names(Port.ASSIGNER) == ["default", "even"]
    assert catalogue.names(Port.BALANCER) == ["default", "even"]
    assert catalogue.names(Port.TRANSPORT) == ["memory", "zmq"]
    assert "fle" in catalogue.names(Port.ELECTION)


def test_a_process_looks_for_its_installed_plugins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: str) -> list[EntryPoint]:
        raise AssertionError(f"the entry points of {group} are read again")

    context = Context("test", 16, NoClock(), random.Random(0))
    first = build_plugin(Port.SLOT_FUNCTION, "crc32c", context)
    monkeypatch.setattr(catalogue, "entry_points", refuse)
    second = build_plugin(Port.SLOT_FUNCTION, "crc32c", context)
    assert isinstance(first, SlotFunction)
    assert isinstance(second, SlotFunction)


def test_a_third_partys_plugin_is_found_and_built(install: Install) -> None:
    catalogue = Catalogue.load([install("good", GOOD)])
    function = find_and_build(catalogue, "good")
    assert function.slot_of("abcde") == 1  # type: ignore[attr-defined]


def test_the_error_for_an_unknown_name_lists_what_there_is_and_the_nearest_match(install: Install) -> None:
    catalogue = Catalogue.load([install("good", GOOD)])
    with pytest.raises(PluginError, match=r"slot_function\.use \(cluster\.toml\): .*'goof'; available: good; did you"):
        find_and_build(catalogue, "goof")


def test_two_offers_of_one_name_are_refused_with_both_sources(install: Install) -> None:
    first, second = install("twice", GOOD), install("again", GOOD.replace("{name}", "twice"))
    with pytest.raises(PluginError, match="two plugins offer the slot_function 'twice'"):
        Catalogue.load([first, second])


@pytest.mark.parametrize(
    ("source", "kind"),
    [("import there_is_no_such_module", "ModuleNotFoundError"), ("import sys; sys.exit('needs libfoo')", "SystemExit")],
)
def test_a_plugin_that_cannot_be_imported_is_broken_and_is_an_error_only_if_it_is_chosen(
    install: Install, source: str, kind: str
) -> None:
    catalogue = Catalogue.load([install("bad", source), install("good", GOOD)])
    assert catalogue.names(Port.SLOT_FUNCTION) == ["good"]
    with pytest.raises(PluginError, match=rf"'bad' .* is broken: does not import: {kind}"):
        find_and_build(catalogue, "bad")


@pytest.mark.parametrize("offer", ["Offer(None, None, 'x')", "Offer('bad', None, 'x', dict)"])
def test_an_offer_without_a_name_or_with_other_options_makes_the_plugin_broken(install: Install, offer: str) -> None:
    source = "from slotreeve.offers import Offer\n" + NOT_AN_OFFER.replace('"{name}"', offer)
    catalogue = Catalogue.load([install("odd", source), install("good", GOOD)])
    assert catalogue.names(Port.SLOT_FUNCTION) == ["good"]
    assert "its name must be a text, its options of Options" in catalogue.broken[0].reason


def test_a_misspelt_hook_makes_the_plugin_broken_and_names_the_right_one(install: Install) -> None:
    catalogue = Catalogue.load([install("misspelt", MISSPELT)])
    assert [broken.plugin for broken in catalogue.broken] == ["misspelt"]
    assert "did you mean 'slotreeve_slot_functions'" in catalogue.broken[0].reason


def test_a_hook_that_returns_no_offers_makes_the_plugin_broken(install: Install) -> None:
    catalogue = Catalogue.load([install("odd", NOT_AN_OFFER)])
    assert "is not an Offer" in catalogue.broken[0].reason


def test_what_a_plugin_builds_must_satisfy_the_port(install: Install) -> None:
    catalogue = Catalogue.load([install("incomplete", INCOMPLETE)])
    with pytest.raises(PluginError, match="built a object, which lacks slot_of of SlotFunction"):
        find_and_build(catalogue, "incomplete")


def test_a_build_that_raises_is_one_clear_error(install: Install) -> None:
    catalogue = Catalogue.load([install("failing", FAILING)])
    with pytest.raises(PluginError, match=r"'failing' .* failed to build: KeyError: 'colour'"):
        find_and_build(catalogue, "failing")


def test_an_offer_for_another_plugin_api_is_refused_with_both_versions(install: Install) -> None:
    catalogue = Catalogue.load([install("future", FROM_THE_FUTURE)])
    with pytest.raises(PluginError, match=r"plugin API 2\.0; this is 1\.0"):
        find_and_build(catalogue, "future")


def test_unknown_options_name_the_nearest_key(install: Install) -> None:
    catalogue = Catalogue.load([install("good", GOOD)])
    entry = catalogue.find(Port.SLOT_FUNCTION, "good")
    with pytest.raises(PluginError, match=r"unknown key 'faktor'; did you mean 'factor'"):
        catalogue.options(entry, {"faktor": 3})


def test_a_message_repeats_neither_a_secret_nor_a_table(install: Install) -> None:
    source = GOOD.replace("factor: int = 1", "factor: int = 1\n    password: SecretStr = Field(min_length=30)").replace(
        "class Modulo", "from pydantic import Field, SecretStr\n\nclass Modulo"
    )
    catalogue = Catalogue.load([install("secretive", source)])
    entry = catalogue.find(Port.SLOT_FUNCTION, "secretive")
    with pytest.raises(PluginError) as caught:
        catalogue.options(entry, {"password": "hunter2", "factor": "many"})
    assert "hunter2" not in str(caught.value)
    assert "'many'" in str(caught.value)
    with pytest.raises(PluginError) as caught:
        catalogue.options(entry, {"factor": {"inner": "hunter2"}})
    assert "hunter2" not in str(caught.value)


def test_an_observing_hook_that_raises_does_not_keep_others_from_being_called(install: Install) -> None:
    catalogue = Catalogue.load([install("observing", OBSERVING)])
    node = Node("data-1", Role.DATA, "127.0.0.1:1", "data-1@1")
    catalogue.notify("slotreeve_node_joined", node=node)
    catalogue.notify("slotreeve_node_left", node=node, reason="lease expired")
    assert sys.modules["plugin_under_test_observing"].calls == [("data-1", "lease expired")]
