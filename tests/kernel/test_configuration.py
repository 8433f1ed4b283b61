"""The layers of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from slotreeve.catalogue import Catalogue
from slotreeve.configuration import (
    PORTS_OF_SERVERS,
    Configuration,
    PluginChoice,
    PortChoices,
    Section,
    load_configuration,
    read_toml,
    read_value,
)
from slotreeve.errors import ConfigError, PluginError
from slotreeve.offers import Port


class Engine(Section):
    speed: int = 1
    weight: float = 1.0
    colour: str = "red"


class ClusterTable(Section):
    meta: dict[str, str] = Field(default_factory=dict)


class Settings(PortChoices):
    engine: Engine = Engine()
    wheels: Section = Section()
    cluster: ClusterTable = ClusterTable()


def load(
    file: Path | None = None, environment: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> Configuration[Settings]:
    return load_configuration(Settings, file, environment or {}, flags or {})


LAYER = st.dictionaries(st.sampled_from(["speed", "colour"]), st.integers(0, 99), max_size=2)


@given(LAYER, LAYER)
def test_a_flag_overrides_the_environment_and_that_the_default(first: dict[str, int], second: dict[str, int]) -> None:
    environment = {f"SLOTREEVE__ENGINE__{key.upper()}": str(value) for key, value in first.items()}
    flags: dict[str, object] = {f"engine.{key}": str(value) for key, value in second.items()}
    found = load(environment=environment, flags=flags)
    expected: dict[str, object] = {"speed": 1, "colour": "red", **first, **second}
    assert found.settings.engine.speed == expected["speed"]
    assert found.settings.engine.colour == str(expected["colour"])
    for key in ("speed", "colour"):
        origin = found.origin(f"engine.{key}")
        if key in second:
            assert origin == f"flag for engine.{key}"
        elif key in first:
            assert origin == f"environment SLOTREEVE__ENGINE__{key.upper()}"
        else:
            assert origin == "default"


def test_the_file_is_the_weakest_layer_and_its_other_keys_stay(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[engine]\nspeed = 2\ncolour = "blue"\n')
    found = load(file, {"SLOTREEVE__ENGINE__SPEED": "3"})
    assert found.settings.engine == Engine(speed=3, colour="blue")
    assert found.where("engine.colour") == f"engine.colour ({file})"
    assert found.where_in("engine", "speed") == "engine.speed (environment SLOTREEVE__ENGINE__SPEED)"


def test_a_layer_that_sets_a_meta_server_replaces_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[cluster.meta]\na = "1"\nb = "2"\n')
    assert load(file).settings.cluster.meta == {"a": "1", "b": "2"}
    assert load(file, flags={"cluster.meta.c": "3"}).settings.cluster.meta == {"c": "3"}


def test_a_variable_may_name_a_file_that_holds_the_value(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("green\n")
    found = load(environment={"SLOTREEVE__ENGINE__COLOUR_FILE": str(tmp_path / "secret")})
    assert found.settings.engine.colour == "green"
    with pytest.raises(ConfigError, match=r"environment SLOTREEVE__ENGINE__COLOUR_FILE: .*missing cannot be read"):
        load(environment={"SLOTREEVE__ENGINE__COLOUR_FILE": str(tmp_path / "missing")})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"engine.sped": "1"}, r"engine\.sped \(flag for engine\.sped\): unknown key 'sped'; did you mean 'speed'\?"),
        ({"engine.xyz": "1"}, "unknown key 'xyz'; known: colour, speed, weight"),
        ({"engine.speed": "fast"}, r"engine\.speed \(flag for engine\.speed\): .*\(got 'fast'\)"),
        ({"motor.speed": "1"}, "unknown key 'motor'"),
        ({"engine.speed": "fast", "wheels.x": "1"}, r"got 'fast'.*; wheels\.x .*unknown key 'x'"),
        ({"balancer.speed": "1"}, "only 'use' and tables named after plugins may stand here"),
    ],
)
def test_a_mistake_is_named_with_its_origin_and_what_would_be_right(flags: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(flags=flags)


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read"):
        load(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"bad\.toml: not valid TOML"):
        load(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("text", "value"), [("[1, 2]", [1, 2]), ('{"a": 1}', {"a": 1}), ("{not json", "{not json"), ("5", "5"), ("", "")]
)
def test_tables_and_lists_are_read_as_json_and_everything_else_as_text(text: str, value: object) -> None:
    assert read_value(text) == value


def test_a_port_with_tables_only_keeps_its_default_choice() -> None:
    found = load(flags={"balancer.even.tolerance": "2"})
    assert found.choice(Port.BALANCER).use == "default"
    assert found.choice(Port.BALANCER).table("even") == {"tolerance": "2"}
    assert found.choice(Port.BALANCER).table("default") == {}


def test_options_of_the_chosen_plugins_are_validated_and_other_tables_are_not() -> None:
    found = load(flags={"balancer.even.anything": "2", "balancer.default.threshold_percent": "20"})
    options = found.check_plugins(Catalogue.load())
    assert options.keys() == set(PORTS_OF_SERVERS)
    assert options[Port.BALANCER].model_dump()["threshold_percent"] == 20


@pytest.mark.parametrize("use", [["prometheus"], "prometheus", " prometheus, "])
def test_a_gateway_uses_several_faces_each_with_its_own_options(use: object) -> None:
    found = load(flags={"face.use": use}).check_faces(Catalogue.load())
    assert [(name, entry.offer.name) for name, (entry, _) in found.items()] == [("prometheus", "prometheus")]
    both = load(flags={"face.use": "rest,second", "face.second.plugin": "rest"}).check_faces(Catalogue.load())
    assert [(name, entry.offer.name) for name, (entry, _) in both.items()] == [("rest", "rest"), ("second", "rest")]


def test_a_wrong_face_stops_a_gateway_and_no_server() -> None:
    unknown = load(flags={"face.use": "promotheus"})
    with pytest.raises(PluginError, match=r"face\.use .*no face 'promotheus'.*did you mean 'prometheus'\?"):
        unknown.check_faces(Catalogue.load())
    unknown.check_plugins(Catalogue.load())
    with pytest.raises(PluginError, match=r"face\.rest\.anything .*unknown key 'anything'"):
        load(flags={"face.rest.anything": "1"}).check_faces(Catalogue.load())
    with pytest.raises(ConfigError, match=r"face\.soap.*there is no face plugin 'soap'"):
        load(flags={"face.soap.path": "/"}).check_faces(Catalogue.load())


def test_a_table_that_is_named_after_no_plugin_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"balancer\.evn .*no balancer plugin 'evn'; available: default, even"):
        load(flags={"balancer.evn.tolerance": "2"}).check_plugins(Catalogue.load())


def test_a_table_of_another_name_says_which_plugin_it_is_for_and_its_options_are_checked() -> None:
    tables = {"balancer.quick.plugin": "default", "balancer.quick.threshold_percent": "20"}
    found = load(flags={**tables, "balancer.use": "quick"}).check_plugins(Catalogue.load())
    assert found[Port.BALANCER].model_dump()["threshold_percent"] == 20
    with pytest.raises(PluginError, match=r"balancer\.quick\.treshold \(flag .*unknown key 'treshold'"):
        load(flags={**tables, "balancer.use": "quick", "balancer.quick.treshold": "1"}).check_plugins(Catalogue.load())
    with pytest.raises(ConfigError, match=r"balancer\.quick .*no balancer plugin 'evn'; available: default, even"):
        load(flags={"balancer.quick.plugin": "evn"}).check_plugins(Catalogue.load())


def test_an_unknown_plugin_or_option_is_an_error_with_its_origin() -> None:
    with pytest.raises(PluginError, match=r"balancer\.use \(flag for balancer\.use\): there is no balancer 'evn'"):
        load(flags={"balancer.use": "evn"}).check_plugins(Catalogue.load())
    with pytest.raises(PluginError, match=r"balancer\.default\.treshold \(flag .*unknown key 'treshold'"):
        load(flags={"balancer.default.treshold": "1"}).check_plugins(Catalogue.load())


def test_a_choice_cannot_be_changed() -> None:
    assert PluginChoice(use="even").table("even") == {}
    with pytest.raises(ValueError, match="frozen"):
        PluginChoice(use="even").use = "default"


def test_a_file_of_a_variable_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff")
    for name in (str(tmp_path / "secret"), "a\0b"):
        with pytest.raises(ConfigError, match=r"environment SLOTREEVE__ENGINE__COLOUR_FILE: .* cannot be read"):
            load(environment={"SLOTREEVE__ENGINE__COLOUR_FILE": name})


def test_values_that_are_nested_too_deeply_or_are_no_number_are_refused_in_words() -> None:
    for value in ("[" * 100_000, "nan", "inf"):
        with pytest.raises(ConfigError, match=r"engine\.weight"):
            load(environment={"SLOTREEVE__ENGINE__WEIGHT": value})


@pytest.mark.parametrize("number", ["9" * 5_000, "0x" + "f" * 5_000, f"{2**63}", f"[1, {{a = {10**19}}}]"])
def test_a_number_that_toml_does_not_have_is_refused_in_words(tmp_path: Path, number: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(f"a = {number}")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_toml(file)
