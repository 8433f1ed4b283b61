"""Whatever is shown, logged or packed up: no secret is in it. Processes are in tests/cli/real."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest
from slotreeve.key_files import issue
from slotreeve.model.nodes import Role
from slotreeve_cli.main import command_line
from slotreeve_client.tools import new_key_pair
from typer.testing import CliRunner

PASSWORD = "Canary7Password"  # noqa: S105 - it opens nothing
PLACE = "127.0.0.1:1"
"""Nothing listens there."""
GOOD = {
    "postgres": f"postgresql://alice:{PASSWORD}@{PLACE}/slotreeve",
    "mysql": f"mysql://alice:{PASSWORD}@{PLACE}/slotreeve",
}
BAD = {
    "postgres": f"postgresql//alice {PASSWORD}@ = '",
    "mysql": f"mysql//alice:{PASSWORD}@{PLACE}",
}


class Scene:
    def __init__(self, directory: Path, use: str, dsn: str) -> None:
        pair = new_key_pair()
        issue(directory, "meta-1", Role.META, pair)
        self.secrets = (PASSWORD, pair.secret)
        self.file = directory / "cluster.toml"
        self.directory = directory
        quoted = dsn.replace("\\", "\\\\").replace('"', '\\"')
        self.file.write_text(
            f"""
[cluster.meta]
meta-1 = "{PLACE}"
[node]
name = "meta-1"
own_key = "{directory}/meta-1.toml"
[election]
use = "{use}"
[election.{use}]
dsn = "{quoted}"
[log]
level = "debug"
""",
            encoding="utf-8",
        )

    def check(self, *command: str, environment: dict[str, str] | None = None) -> str:
        found = CliRunner(env=environment).invoke(
            command_line(command[0]), [part.replace("FILE", str(self.file)) for part in command]
        )
        told = found.output + found.stderr + repr(found.exception)
        for secret in self.secrets:
            assert secret not in told, command
        return told


COMMANDS = [
    ("config", "show", "-c", "FILE"),
    ("config", "show", "-c", "FILE", "-o", "json"),
    ("config", "check", "-c", "FILE"),
    ("config", "check", "-c", "FILE", "--online", "-o", "json"),
    ("election", "release", "-c", "FILE", "--yes"),
    ("keys", "list", "-d", "DIRECTORY"),
    ("keys", "list", "-d", "DIRECTORY", "-o", "json"),
    ("plugins", "list"),
]


@pytest.mark.parametrize("use", GOOD)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_a_password_or_a_secret_key(
    command: tuple[str, ...], use: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    scene = Scene(tmp_path, use, GOOD[use])
    told = scene.check(*(part.replace("DIRECTORY", str(tmp_path)) for part in command))
    assert told
    assert "Usage:" not in told
    assert not any(secret in caplog.text for secret in scene.secrets)


@pytest.mark.parametrize("use", BAD)
@pytest.mark.parametrize(
    "command",
    [
        ("config", "check", "-c", "FILE"),
        ("config", "show", "-c", "FILE"),
        ("config", "check", "-c", "FILE", "--set", "cluster.slots=many"),
        ("config", "check", "-c", "FILE", "--set", "election.USE.no_such_option=1"),
    ],
    ids=" ".join,
)
def test_an_error_does_not_quote_a_connection_string(command: tuple[str, ...], use: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path, use, BAD[use])
    assert scene.check(*(part.replace("USE", use) for part in command))


@pytest.mark.parametrize("use", GOOD)
@pytest.mark.parametrize("value", ["GOOD", "BAD", "[GOOD]", '{"x": "GOOD"}'])
@pytest.mark.parametrize("name", ["dsn", "dsnn", "password"])
def test_neither_does_one_about_a_flag_or_a_variable(use: str, value: str, name: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path, use, GOOD[use])
    text = value.replace("GOOD", GOOD[use]).replace("BAD", BAD[use])
    assert scene.check("config", "check", "-c", "FILE", "--set", f"election.{use}.{name}={text}")
    variable = f"SLOTREEVE__ELECTION__{use.upper()}__{name.upper()}"
    assert scene.check("config", "check", "-c", "FILE", environment={variable: text})
    assert scene.check("config", "show", "-c", "FILE", environment={variable: text})


def test_an_error_about_a_key_file_does_not_quote_its_secret(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "postgres", GOOD["postgres"])
    own = tmp_path / "meta-1.toml"
    good = own.read_text(encoding="utf-8")
    for bad in (good.replace("secret", "secrets"), good[:-10], good + "x", good.replace('"', "'", 1), good.upper()):
        own.chmod(0o600)
        own.write_text(bad, encoding="utf-8")
        told = scene.check("config", "check", "-c", "FILE")
        assert scene.secrets[1].upper() not in told


def test_a_bundle_has_the_configuration_without_its_secrets(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "mysql", GOOD["mysql"])
    to = tmp_path / "bundle.tar.gz"
    scene.check("debug", "bundle", "-c", "FILE", "--meta", PLACE, "--to", str(to))
    packed = gzip.decompress(to.read_bytes()).decode("utf-8", "replace")
    assert "election.mysql.dsn" in packed
    assert not any(secret in packed for secret in scene.secrets)
