"""The files of keys: what they hold, who may read them, and what happens when they change."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError
from slotreeve.key_files import TRUSTED_FILE, TrustedFile, issue, load_keys, read_own, write_own, write_trusted
from slotreeve.keys import KeyPair, Principal
from slotreeve.model.nodes import Role

from tests.descriptors import none_free

PAIR = KeyPair("1" * 40, "9" * 40)
DATA = Principal("data-1", Role.DATA, PAIR.public)
SHOP = Principal("shop", Role.CLIENT, "6" * 40, ("read:com.*", "register:com.example.Shop"))
TILL = Principal("till", Role.CLIENT, "7" * 40)
META = Principal("meta-1", Role.META, "2" * 40)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with the files of ``data-1``."""
    write_own(tmp_path / "data-1.toml", DATA, PAIR)
    write_trusted(tmp_path / TRUSTED_FILE, [META, DATA, SHOP, TILL])
    return tmp_path


def test_what_is_written_is_read(files: Path) -> None:
    assert read_own(files / "data-1.toml") == (DATA, PAIR)
    assert TrustedFile(files / TRUSTED_FILE).read().all() == [META, DATA, SHOP, TILL]
    keys = load_keys(str(files / "data-1.toml"))
    assert keys is not None
    assert keys.own == PAIR
    assert keys.trusted.holder(META.key) == META


def test_names_of_any_kind_are_written_so_that_they_can_be_read(tmp_path: Path) -> None:
    names = ['data "1"', "daten-ü", "data-10.0.0.1:7720", "a\\b", "x = 1", "#", "data.1"]
    rows = [Principal(name, Role.DATA, f"{number:040}") for number, name in enumerate(names)]
    write_trusted(tmp_path / TRUSTED_FILE, rows)
    assert TrustedFile(tmp_path / TRUSTED_FILE).read().all() == rows


def test_only_its_owner_can_read_a_secret(files: Path) -> None:
    own = files / "data-1.toml"
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    own.chmod(0o604)
    with pytest.raises(ConfigError, match="everybody on this machine can read this secret; expected: chmod 600"):
        read_own(own)


def test_a_secret_is_not_overwritten_by_mistake(files: Path) -> None:
    other = KeyPair("3" * 40, "4" * 40)
    with pytest.raises(ConfigError, match="there is a key already"):
        write_own(files / "data-1.toml", DATA, other)
    assert read_own(files / "data-1.toml")[1] == PAIR
    write_own(files / "data-1.toml", DATA._replace(key=other.public), other, replaces=True)
    assert read_own(files / "data-1.toml")[1] == other
    assert sorted(os.listdir(files)) == ["data-1.toml", TRUSTED_FILE]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = 1", "name, role, public, secret is missing"),
        ('name = "a"\nrole = "king"\npublic = "{0}"\nsecret = "{0}"', "there is no role 'king'"),
        ('name = "a"\nrole = "data"\npublic = "{0}"\nsecret = "x"', "secret: expected a key"),
        ("name = ", "not valid TOML"),
        ("\udcff", "not valid TOML"),
    ],
)
def test_an_own_file_that_is_none_is_refused_in_words(tmp_path: Path, text: str, problem: str) -> None:
    own = tmp_path / "own.toml"
    own.write_bytes(text.format("1" * 40).encode("utf-8", "surrogateescape"))
    own.chmod(0o600)
    with pytest.raises(ConfigError, match=problem) as caught:
        read_own(own)
    assert str(own) in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_own(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("data = 7", r"\[data\]: expected rows such as"),
        ('[data]\ndata-1 = "x"', "expected rows such as"),
        ('[king]\ndata-1 = ["{0}"]', "there is no role 'king'"),
        ("[data]\ndata-1 = [7]", "expected rows such as data-1"),
        ('[rights]\nshop = "read:*"', r"\[rights\]: expected rows such as shop"),
        ('[rights]\nshop = ["read:*"]', "there is no client of this name"),
        ('[data]\ndata-1 = ["{0}"]\ndata-2 = ["{0}"]', "this is the key of data-1, too"),
    ],
)
def test_a_trusted_file_that_is_none_is_refused_in_words(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / TRUSTED_FILE
    path.write_text(text.format("1" * 40))
    with pytest.raises(ConfigError, match=problem) as caught:
        TrustedFile(path).read()
    assert str(path) in str(caught.value)


def test_a_change_of_whom_to_trust_is_followed_and_one_that_cannot_be_read_is_not(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = load_keys(str(files / "data-1.toml"))
    assert keys is not None
    before = keys.trusted
    keys.look_again()
    assert keys.trusted is before, "nothing has changed"
    (files / TRUSTED_FILE).write_text("[data")
    keys.look_again()
    assert keys.trusted is before
    assert "the keys that were trusted before stay in use" in caplog.text
    (files / TRUSTED_FILE).unlink()
    keys.look_again()
    assert keys.trusted is before
    write_trusted(files / TRUSTED_FILE, [META])
    keys.look_again()
    assert keys.trusted.all() == [META]


def test_a_change_that_could_not_be_read_is_read_once_it_can_be(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever uses up the descriptors of a server must not keep it from reading that his key is revoked."""
    keys = load_keys(str(files / "data-1.toml"))
    assert keys is not None
    before = keys.trusted
    write_trusted(files / TRUSTED_FILE, [META])
    with none_free():
        for _ in range(3):
            keys.look_again()
    assert keys.trusted is before
    assert caplog.text.count("Too many open files") == 1
    keys.look_again()
    assert keys.trusted.all() == [META]


def test_an_own_key_that_is_trusted_as_somebody_elses_is_refused(files: Path) -> None:
    write_trusted(files / TRUSTED_FILE, [DATA._replace(name="data-2")])
    with pytest.raises(ConfigError, match=r"the key of data-1 \(data\), and .* says that it is that of data-2"):
        load_keys(str(files / "data-1.toml"))


def test_without_an_own_key_there_are_none(files: Path) -> None:
    assert load_keys("") is None
    with pytest.raises(ConfigError, match="expected own_key as well"):
        load_keys("", str(files / TRUSTED_FILE))


def test_whom_to_trust_may_stand_elsewhere(files: Path, tmp_path: Path) -> None:
    other = tmp_path / "everybody.toml"
    write_trusted(other, [META, DATA, Principal("shop", Role.CLIENT, "5" * 40)])
    keys = load_keys(str(files / "data-1.toml"), str(other))
    assert keys is not None
    assert keys.trusted.holder("5" * 40) is not None


def test_names_and_rights_may_have_any_character_that_can_be_printed(tmp_path: Path) -> None:
    issue(tmp_path, "shop-\U0001f600", Role.CLIENT, PAIR, ("read:caf\u00e9\U0001f600*",))
    issue(tmp_path, "second", Role.CLIENT, KeyPair("3" * 40, "8" * 40))
    found = TrustedFile(tmp_path / TRUSTED_FILE).read().all()
    assert {each.name for each in found} == {"shop-\U0001f600", "second"}
