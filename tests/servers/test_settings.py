from __future__ import annotations

from pathlib import Path

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.errors import ConfigError, PluginError
from slotreeve.offers import Port
from slotreeve_servers.settings import load_settings


def test_without_anything_every_setting_has_its_default() -> None:
    configuration = load_settings(None, {}, {})
    assert configuration.settings.cluster.slots == 256
    assert configuration.settings.election.use == "fle"
    assert configuration.origin("cluster.slots") == "default"


def test_flags_are_stronger_than_environment_and_that_is_stronger_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[cluster]\nslots = 16\nreplicas = 3\nname = 'east'\n")
    environment = {"SLOTREEVE__CLUSTER__SLOTS": "32", "SLOTREEVE__CLUSTER__REPLICAS": "1", "UNRELATED": "x"}
    configuration = load_settings(file, environment, {"cluster.slots": "64"})
    cluster = configuration.settings.cluster
    assert (cluster.slots, cluster.replicas, cluster.name) == (64, 1, "east")
    assert configuration.origin("cluster.slots") == "flag for cluster.slots"
    assert configuration.origin("cluster.replicas") == "environment SLOTREEVE__CLUSTER__REPLICAS"
    assert configuration.origin("cluster.name") == str(file)


def test_an_unknown_key_names_the_nearest_one_and_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[meta]\nlease_second = 3\n")
    with pytest.raises(ConfigError, match=r"meta\.lease_second .*cluster\.toml.*did you mean 'lease_seconds'"):
        load_settings(file, {}, {})


def test_an_unknown_section_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"environment SLOTREEVE__SESION__X.*did you mean 'session'"):
        load_settings(None, {"SLOTREEVE__SESION__X": "1"}, {})


def test_a_value_that_does_not_fit_says_what_would() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.slots \(flag.*greater than or equal to 1.*'0'"):
        load_settings(None, {}, {"cluster.slots": "0"})


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, {}, {"cluster.slots": "many", "node.weight": "-1"})
    assert "cluster.slots" in str(caught.value)
    assert "node.weight" in str(caught.value)


def test_two_meta_servers_with_one_address_are_refused() -> None:
    flags = {f"cluster.meta.{name}": "10.0.0.1:7710" for name in ("meta-1", "meta-2")}
    with pytest.raises(ConfigError, match=r"meta-1 and meta-2 have one address, 10\.0\.0\.1:7710"):
        load_settings(None, {}, flags)


def test_a_lease_that_one_lost_heartbeat_would_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 3 x heartbeat_seconds"):
        load_settings(None, {}, {"meta.lease_seconds": "2"})


@pytest.mark.parametrize(("content", "message"), [(b"[cluster\n", "not valid TOML"), (b"\xff", "not valid TOML")])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "cluster.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(file, {}, {})
    assert str(file) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml: cannot be read"):
        load_settings(tmp_path / "nothing.toml", {}, {})


def test_a_secret_is_read_from_the_file_that_the_environment_names(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from-a-file\n")
    configuration = load_settings(None, {"SLOTREEVE__CLUSTER__NAME_FILE": str(secret)}, {})
    assert configuration.settings.cluster.name == "from-a-file"


def test_tables_can_be_given_as_json_in_environment_and_flags() -> None:
    configuration = load_settings(None, {"SLOTREEVE__CLUSTER__META": '{"a": "127.0.0.1:1"}'}, {})
    assert configuration.settings.cluster.meta == {"a": "127.0.0.1:1"}


def test_a_later_layer_replaces_the_table_of_meta_servers_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[cluster.meta]\na = "127.0.0.1:1"\nb = "127.0.0.1:2"\n')
    configuration = load_settings(file, {}, {"cluster.meta": {"c": "127.0.0.1:3"}})
    assert configuration.settings.cluster.meta == {"c": "127.0.0.1:3"}


def test_meta_servers_may_be_named_one_by_one_within_a_layer(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[cluster.meta]\nold = "127.0.0.1:1"\n')
    flags = {"cluster.meta.a": "127.0.0.1:2", "cluster.meta.b": "127.0.0.1:3"}
    configuration = load_settings(file, {}, flags)
    assert configuration.settings.cluster.meta == {"a": "127.0.0.1:2", "b": "127.0.0.1:3"}


def test_swapping_a_plugin_is_one_word_and_other_plugins_tables_may_stay(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[slot_function]\nuse = "md5"\n[slot_function.crc32c]\n')
    configuration = load_settings(file, {}, {})
    assert configuration.choice(Port.SLOT_FUNCTION).use == "md5"
    configuration.check_plugins(Catalogue.load())


def test_an_unknown_plugin_names_file_key_the_available_ones_and_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[slot_function]\nuse = "crc32"\n')
    configuration = load_settings(file, {}, {})
    with pytest.raises(PluginError, match=r"slot_function\.use .*cluster\.toml.*crc32c, md5; did you mean 'crc32c'"):
        configuration.check_plugins(Catalogue.load())


def test_an_unknown_option_of_a_plugin_says_where_it_was_set(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[election.fle]\nping_interval = 5\n")
    configuration = load_settings(file, {}, {})
    with pytest.raises(PluginError, match=r"election\.fle\.ping_interval .*cluster\.toml.*'ping_interval_ms'"):
        configuration.check_plugins(Catalogue.load())


def test_a_table_named_after_no_plugin_is_an_error() -> None:
    configuration = load_settings(None, {}, {"transport.smoke": {"signals": "2"}})
    with pytest.raises(ConfigError, match=r"transport\.smoke.*there is no transport plugin 'smoke'"):
        configuration.check_plugins(Catalogue.load())


def test_a_plugin_section_holds_nothing_but_use_and_tables() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'usee'"):
        load_settings(None, {}, {"transport.usee": "zmq"})
