"""The files of a whole cluster: complete, checked, and no secret where it does not belong."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.errors import ConfigError
from slotreeve_cli.config_file import complete_file
from slotreeve_cli.config_init import Planned, planned
from slotreeve_cli.main import command_line
from slotreeve_servers.settings import Settings, load_settings
from typer.testing import CliRunner

FLAGS = [
    *("--meta=meta-1=10.0.0.1", "--meta=meta-2=10.0.0.2", "--meta=meta-3=10.0.0.3:7700"),
    *("--data=data-1=10.0.0.1", "--data=data-2=10.0.0.2", "--session=session-1=10.0.0.3"),
    "--gateway=gateway-1=10.0.0.3",
]


def made(directory: Path, *flags: str) -> str:
    found = CliRunner().invoke(command_line("config"), ["config", "init", str(directory / "made"), *flags])
    if found.exit_code:
        raise found.exception or AssertionError(found.output)
    return found.output


def test_the_file_is_good_as_it_is_and_with_every_default_written_out(tmp_path: Path) -> None:
    for election in ("fle", "postgres", "mysql"):
        text = complete_file(Catalogue.load(), {"cluster.name": "prod", "election.use": election})
        whole = tmp_path / f"{election}.toml"
        whole.write_text(text, encoding="utf-8")
        settings = load_settings(whole, {}, {}).settings
        assert (settings.cluster.name, settings.election.use) == ("prod", election)
        written_out = tomllib.loads(text.replace("#= ", ""))
        for section in ("node", "meta", "data", "session", "gateway", "history"):
            model = getattr(Settings(), section)
            assert written_out[section].keys() == type(model).model_fields.keys()
            assert load_settings(None, {}, {f"{section}.{k}": v for k, v in written_out[section].items()})


def test_each_machine_has_what_its_servers_need_and_no_key_of_another(tmp_path: Path) -> None:
    made(tmp_path, *FLAGS)
    top = tmp_path / "made"
    assert sorted(path.name for path in top.iterdir()) == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "README.txt", "operator"]
    keys = {host: {path.name for path in (top / host / "keys").iterdir()} for host in ("10.0.0.1", "10.0.0.3")}
    assert keys["10.0.0.1"] == {"trusted.toml", "meta-1.toml", "data-1.toml"}
    assert keys["10.0.0.3"] == {"trusted.toml", "meta-3.toml", "session-1.toml", "gateway-1.toml"}
    assert {path.name for path in (top / "operator/keys").iterdir()} == {"trusted.toml", "operator.toml"}
    for path in top.rglob("*.toml"):
        is_secret = path.parent.name == "keys" and path.name != "trusted.toml"
        assert bool(path.stat().st_mode & stat.S_IRGRP) is not is_secret, path
    texts = {path.read_text() for path in top.rglob("slotreeve.toml")}
    assert len(texts) == 1
    written = tomllib.loads(texts.pop())
    assert written["cluster"]["meta"] == {
        "meta-1": "10.0.0.1:7710",
        "meta-2": "10.0.0.2:7710",
        "meta-3": "10.0.0.3:7700",
    }
    assert written["election"]["fle"]["data_dir"] == "state-{node}"
    assert written["gateway"]["sessions"] == ["session-1@10.0.0.3:7730"]
    assert written["gateway"]["authentication"] == "tokens"
    assert written["election"]["fle"]["data_dir"] == "state-{node}"
    units = {host: {path.name for path in (top / host / "systemd").iterdir()} for host in ("10.0.0.1", "10.0.0.2")}
    assert units["10.0.0.1"] == {"slotreeve-meta@.service", "slotreeve-data@.service"}
    unit = (top / "10.0.0.1/systemd/slotreeve-data@.service").read_text()
    assert "ExecStart=/opt/slotreeve/bin/slotreeve data run -c /etc/slotreeve/slotreeve.toml --name %i\n" in unit
    data = (top / "10.0.0.2/data-2.env").read_text()
    assert data == (
        "SLOTREEVE__NODE__OWN_KEY=/etc/slotreeve/keys/data-2.toml\nSLOTREEVE__NODE__ADVERTISE=10.0.0.2:7720\n"
    )


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--meta=meta-1"], "expected NAME=HOST"),
        (["--data=data-1=10.0.0.1:x"], "expected NAME=HOST"),
        (["--data=meta-1=10.0.0.9"], "named twice"),
        (["--data=data-1=127.0.0.1:7710"], "one address"),
        (["--election=none"], "none"),
        (["--data=a=::1"], "IPv6"),
        (["--data=../evil=h1"], "no name of a server"),
        (["--data=operator=h1"], "no name of a server"),
        (["--data=a b=h1"], "no name of a server"),
        (["--data=d=h 1"], "no host"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(flags: list[str], why: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=why):
        made(tmp_path, *flags)
    assert not (tmp_path / "made").exists()


def test_a_directory_that_exists_keeps_its_keys(tmp_path: Path) -> None:
    made(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="exists already"):
        made(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("a=h", "h", 7710), ("a=h:1", "h", 1), ("a=[::1]:1", "[::1]", 1), ("a=[::1]", "[::1]", 7710)],
)
def test_places_of_servers(text: str, host: str, port: int) -> None:
    assert planned("meta", text) == Planned("meta", "a", host, port)
