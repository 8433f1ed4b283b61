"""``slotreeve keys``: files of keys are made, renewed, revoked and listed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer
from slotreeve.errors import ConfigError
from slotreeve.key_files import TRUSTED_FILE, issue, load_keys, read_own, trusted_in
from slotreeve.model.nodes import Role
from slotreeve_cli import keys
from slotreeve_client.tools import new_key_pair
from typer.testing import CliRunner, Result


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    keys.add_to(app)
    return app


def run(app: typer.Typer, directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ("keys", *arguments, "--directory", str(directory)))


def trusted(app: typer.Typer, directory: Path) -> list[dict[str, object]]:
    shown = run(app, directory, "list", "-o", "json")
    assert shown.exit_code == 0, shown.output
    found: list[dict[str, object]] = json.loads(shown.output)
    return found


def test_a_new_key_is_written_for_its_process_alone_and_trusted(app: typer.Typer, tmp_path: Path) -> None:
    directory = tmp_path / "keys"
    done = run(app, directory, "new", "data-1", "--role", "data")
    assert done.exit_code == 0, done.output
    principal, pair = read_own(directory / "data-1.toml")
    assert (principal.name, principal.role) == ("data-1", Role.DATA)
    assert pair.secret not in done.output
    assert pair.secret not in (directory / TRUSTED_FILE).read_text()
    assert trusted(app, directory) == [{"name": "data-1", "role": "data", "rights": [], "key": pair.public}]
    assert load_keys(str(directory / "data-1.toml")) is not None
    assert directory.stat().st_mode & 0o077 == 0


def test_every_key_is_another_one(app: typer.Typer, tmp_path: Path) -> None:
    for number in range(5):
        run(app, tmp_path, "new", f"client-{number}", "--role", "client")
    assert len({row["key"] for row in trusted(app, tmp_path)}) == 5
    assert len({read_own(tmp_path / f"client-{number}.toml")[1].secret for number in range(5)}) == 5


def test_a_key_is_renewed_beside_the_one_before_until_that_is_revoked(app: typer.Typer, tmp_path: Path) -> None:
    run(app, tmp_path, "new", "meta-1", "--role", "meta")
    run(app, tmp_path, "new", "shop", "--role", "client")
    first = read_own(tmp_path / "meta-1.toml")[1].public
    assert run(app, tmp_path, "renew", "meta-1").exit_code == 0
    second = read_own(tmp_path / "meta-1.toml")[1].public
    of_meta = [row["key"] for row in trusted(app, tmp_path) if row["name"] == "meta-1"]
    assert of_meta == [first, second]
    done = run(app, tmp_path, "revoke", "meta-1", "--but-newest")
    assert (done.exit_code, done.output) == (0, "revoked: 1 key of meta-1\n")
    assert [row["key"] for row in trusted(app, tmp_path) if row["name"] == "meta-1"] == [second]
    assert run(app, tmp_path, "revoke", "meta-1").exit_code == 0
    assert [row["name"] for row in trusted(app, tmp_path)] == ["shop"]


def test_a_client_has_the_rights_that_it_is_given_and_they_can_be_changed(app: typer.Typer, tmp_path: Path) -> None:
    run(app, tmp_path, "new", "shop", "--role", "client", "--right", "register:com.example.Shop")
    run(app, tmp_path, "new", "till", "--role", "client")
    rights = {row["name"]: row["rights"] for row in trusted(app, tmp_path)}
    assert rights == {"shop": ["register:com.example.Shop"], "till": ["read:*", "register:*"]}
    done = run(app, tmp_path, "rights", "till", "--right", "read:com.example.*")
    assert (done.exit_code, done.output) == (0, "till may now: read:com.example.*\n")
    run(app, tmp_path, "renew", "till")
    assert [row["rights"] for row in trusted(app, tmp_path) if row["name"] == "till"] == 2 * [["read:com.example.*"]]
    assert run(app, tmp_path, "rights", "nobody", "--right", "read:*").exit_code == 3
    for arguments in (("rights", "till", "--right", "rule:*"), ("new", "d", "--role", "data", "--right", "read:*")):
        assert isinstance(run(app, tmp_path, *arguments).exception, ConfigError)


def test_what_is_not_there_is_said(app: typer.Typer, tmp_path: Path) -> None:
    for command in ("renew", "revoke"):
        done = run(app, tmp_path, command, "nobody")
        assert (done.exit_code, done.output) == (3, "there is no key of nobody\n")
    assert run(app, tmp_path, "list").output.startswith("no key is trusted in")


@pytest.mark.parametrize(
    ("name", "role", "problem"),
    [
        ("data-1", "king", "there is no such role; expected one of meta, data"),
        ("../data-1", "data", "expected one without slashes"),
        (".data", "data", "expected one without slashes"),
        ("trusted", "data", "expected one without slashes"),
        ("a\nb", "data", "expected a name"),
        ("there", "data", "there has a key already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_and_nothing_is_written(
    app: typer.Typer, tmp_path: Path, name: str, role: str, problem: str
) -> None:
    run(app, tmp_path / "keys", "new", "there", "--role", "data")
    before = sorted(tmp_path.rglob("*"))
    done = run(app, tmp_path / "keys", "new", name, "--role", role)
    assert isinstance(done.exception, ConfigError)
    assert problem in str(done.exception)
    assert sorted(tmp_path.rglob("*")) == before


def test_commands_at_once_undo_nothing_of_each_other(tmp_path: Path) -> None:
    names = [f"data-{number}" for number in range(16)]
    for name in names[:8]:
        issue(tmp_path, name, Role.DATA, new_key_pair())

    def change(name: str) -> None:
        if name in names[:8]:
            keys.revoke(name, directory=tmp_path)
        else:
            keys.new(name, "data", [], tmp_path)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(change, names))
    assert {each.name for each in trusted_in(tmp_path)} == {*names[8:]}
