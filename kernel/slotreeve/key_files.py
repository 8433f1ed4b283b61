"""The two files of keys: a process's own key, which is secret, and the trusted keys, which are the same everywhere."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from slotreeve.configuration import read_toml
from slotreeve.errors import ConfigError
from slotreeve.keys import KeyPair, KeyRing, Principal, TrustedKeys, checked_key
from slotreeve.model.nodes import Role
from slotreeve.toml_text import toml_key, toml_value

TRUSTED_FILE = "trusted.toml"
"""The trusted keys are in a file of this name beside a process's own key, unless another one is named."""
RIGHTS = "rights"
"""The table of the file of trusted keys that holds the rights of clients."""
ALL_RIGHTS = ("read:*", "register:*")
"""What a client may do unless it is said otherwise as its key is made."""
_OWN_HEAD = "# The secret key of {name}. Only the account that runs it may read this file.\n"
_TRUSTED_HEAD = (
    "# Who may take part in this cluster: the public keys by role and name. The same file for every process, which\n"
    "# reads it again when it changes. While one key replaces another, both stand here, the newer one last.\n"
)
log = logging.getLogger("slotreeve.keys")


def load_keys(own_key: str, trusted_keys: str = "") -> KeyRing | None:
    """The keys of a process, from the file of its own and that of the trusted ones; None where ``own_key`` is empty.

    The trusted ones are read again when their file changes. Where it cannot be read then, the list before it stays in
    use. ``trusted_keys`` is empty for the file that stands beside the other one.

    Raises:
        ConfigError: a file cannot be read, is not what it should be, or lets everybody read a secret; or the own key
            stands under another name or role among the trusted ones.
    """
    if not own_key:
        if trusted_keys:
            raise ConfigError(f"{trusted_keys} says whom to trust, and there is no own key; expected own_key as well")
        return None
    own = Path(own_key)
    principal, pair = read_own(own)
    file = TrustedFile(Path(trusted_keys) if trusted_keys else own.with_name(TRUSTED_FILE))
    first = file.read()
    found = first.holder(principal.key)
    if found is not None and (found.name, found.role) != (principal.name, principal.role):
        raise ConfigError(
            f"{own}: this is the key of {principal.name} ({principal.role}), and {file.path} says that it is that of "
            f"{found.name} ({found.role})"
        )
    return KeyRing(pair, first, file.newer, principal.name)


def read_own(path: Path) -> tuple[Principal, KeyPair]:
    """Who a process is by its own file, and its key.

    Raises:
        ConfigError: as :func:`load_keys`.
    """
    table = read_toml(path)
    texts = {name: text for name, text in table.items() if isinstance(text, str)}
    lacking = [name for name in ("name", "role", "public", "secret") if name not in texts]
    if lacking:
        raise ConfigError(f"{path}: {', '.join(lacking)} is missing; expected a file that `slotreeve keys new` made")
    if path.stat().st_mode & stat.S_IROTH:
        raise ConfigError(f"{path}: everybody on this machine can read this secret; expected: chmod 600 {path}")
    pair = KeyPair(checked_key(texts["public"], f"{path}: public"), checked_key(texts["secret"], f"{path}: secret"))
    return Principal(texts["name"], _role(texts["role"], path), pair.public), pair


class TrustedFile:
    """The file of trusted keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._problem = ""

    def read(self) -> TrustedKeys:
        """Its content.

        Raises:
            ConfigError: it cannot be read, or is not what it should be.
        """
        stamp = stamp_of(self.path)  # looked at before it is read: what changes meanwhile is read the next time
        table = read_toml(self.path)
        rows: dict[Role, dict[str, list[str]]] = {}
        rights: dict[str, list[str]] = {}
        for title, names in table.items():
            if not isinstance(names, dict) or not all(map(_are_texts, names.values())):
                example = 'shop = ["read:*"]' if title == RIGHTS else 'data-1 = ["KEY"]'
                raise ConfigError(f"{self.path}: [{title}]: expected rows such as {example}")
            if title == RIGHTS:
                rights = names
            else:
                rows[_role(title, self.path)] = names
        try:
            trusted = TrustedKeys(rows, rights)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None
        self._seen = stamp
        return trusted

    def newer(self) -> TrustedKeys | None:
        """Its content if it has changed since it was read, and can be read. One that cannot is tried again."""
        if stamp_of(self.path) == self._seen:
            return None
        try:
            found = self.read()
        except ConfigError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.error("%s; the keys that were trusted before stay in use", error)
            return None
        self._problem = ""
        log.info("%s: read again", self.path)
        return found


def write_own(path: Path, principal: Principal, pair: KeyPair, *, replaces: bool = False) -> None:
    """Make the file of a process's own key, which nobody else may read. ``replaces``: there may be another one.

    Raises:
        ConfigError: there is a file already, or none can be made.
    """
    rows = {"name": principal.name, "role": str(principal.role), "public": pair.public, "secret": pair.secret}
    text = _OWN_HEAD.format(name=principal.name) + "".join(
        f"{name} = {toml_value(row)}\n" for name, row in rows.items()
    )
    if path.exists() and not replaces:
        raise ConfigError(f"{path}: there is a key already; expected another name, or another directory")
    _replace(path, text, 0o600)


def write_trusted(path: Path, principals: Collection[Principal]) -> None:
    """Replace the file of trusted keys at once, so that no reader sees half of it.

    Raises:
        ConfigError: it cannot be written.
    """
    tables: dict[str, dict[str, list[str]]] = {}
    for principal in principals:
        tables.setdefault(principal.role, {}).setdefault(principal.name, []).append(principal.key)
    clients = {principal.name: list(principal.rights) for principal in principals if principal.role is Role.CLIENT}
    if clients:
        tables[RIGHTS] = clients
    text = _TRUSTED_HEAD
    for title, names in tables.items():
        text += f"\n[{title}]\n" + "".join(f"{toml_key(name)} = {toml_value(row)}\n" for name, row in names.items())
    _replace(path, text, 0o644)


def issue(directory: Path, name: str, role: Role, pair: KeyPair, rights: Sequence[str] = ALL_RIGHTS) -> Path:
    """Make the file of a new key in a directory of keys, and trust the key there. Returns the file. ``rights``: those
    of a client.

    Raises:
        ConfigError: there is a key of this name already, the rights are not good, no file can be named so, or none can
            be written.
    """
    if Path(name).name != name or name.startswith(".") or f"{name}.toml" == TRUSTED_FILE:
        raise ConfigError(f"{name!r}: the secret would be in a file of this name; expected one without slashes")
    may = tuple(rights) if role is Role.CLIENT else ()
    principal, own = Principal(name, role, pair.public, may), directory / f"{name}.toml"
    TrustedKeys({role: {name: [pair.public]}}, {name: may} if may else {})
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be made: {error.strerror}") from None
    with changing(directory):
        known = trusted_in(directory)
        if any(each.name == name for each in known):
            raise ConfigError(f"{name} has a key already; `slotreeve keys renew {name}` makes another one beside it")
        write_own(own, principal, pair)
        write_trusted(directory / TRUSTED_FILE, [*known, principal])
    return own


@contextlib.contextmanager
def changing(directory: Path) -> Iterator[None]:
    """While no other command changes the trusted keys of a directory: read and write them within. What one command has
    revoked would be trusted again by the copy that another one has read before.

    Raises:
        ConfigError: its file system has no locks.
    """
    if not directory.is_dir():
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise ConfigError(f"{directory}: cannot be locked: {error.strerror}") from None
        yield
    finally:
        os.close(handle)


def trusted_in(directory: Path) -> list[Principal]:
    """The trusted keys in a directory of keys; none where there is no such file.

    Raises:
        ConfigError: the file cannot be read, or is not what it should be.
    """
    path = directory / TRUSTED_FILE
    return TrustedFile(path).read().all() if path.exists() else []


def _replace(path: Path, text: str, mode: int) -> None:
    """Write a file beside it and rename that, so that no reader sees half of it."""
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.unlink(missing_ok=True)
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def _are_texts(row: object) -> bool:
    return isinstance(row, list) and all(isinstance(text, str) for text in row)


def _role(text: str, path: Path) -> Role:
    if text not in tuple(Role):
        raise ConfigError(f"{path}: there is no role {text!r}; expected one of {', '.join(Role)}")
    return Role(text)


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """What differs once a file has been written or replaced; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
