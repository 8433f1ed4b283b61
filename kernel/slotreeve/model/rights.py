"""What clients, and callers of a gateway, may do with which services."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from slotreeve.errors import ModelError
from slotreeve.model.data_info import DELIMITER

MAX_PATTERN_LENGTH = 256
ANY = "*"


class Right(StrEnum):
    """What a caller may do with the services whose data id matches a pattern. None of them holds another one."""

    READ = "read"
    """See the service and its instances."""
    REGISTER = "register"
    """Register, renew and end instances."""
    OPERATE = "operate"
    """Override what providers say. For all services: read and order what operators do."""


def parse_right(text: str) -> tuple[Right, str]:
    """Read ``RIGHT:PATTERN``, such as ``read:com.example.*``. ``*`` stands for any characters, also for none.

    Raises:
        ModelError: it is not of this form.
    """
    name, _, pattern = text.partition(":")
    if name not in tuple(Right) or not 1 <= len(pattern) <= MAX_PATTERN_LENGTH or pattern.isspace():
        raise ModelError(
            f"right {text[:80]!r}: expected read:PATTERN, register:PATTERN or operate:PATTERN, where PATTERN is a data "
            f"id of at most {MAX_PATTERN_LENGTH} characters, with * for any characters"
        )
    return Right(name), pattern


def matches(pattern: str, name: str) -> bool:
    """Whether a name is of a pattern, in which ``*`` stands for any characters, also for none."""
    parts = pattern.split(ANY)
    return pattern == name if len(parts) == 1 else _matches(parts, name)


class Rights:
    """Rights of one caller, read once; a question costs less than a microsecond.

    Raises:
        ModelError: as :func:`parse_right`.
    """

    __slots__ = ("_by_right",)

    def __init__(self, texts: Iterable[str] = ()) -> None:
        patterns: dict[Right, list[str]] = {right: [] for right in Right}
        for text in texts:
            right, pattern = parse_right(text)
            patterns[right].append(pattern)
        self._by_right = {right: _Patterns(found) for right, found in patterns.items()}

    def hold(self, right: Right, service: str) -> bool:
        """Whether they hold this right for a service, a data id or a data info id: its instance id and group do not
        count."""
        return self._by_right[right].match(service.partition(DELIMITER)[0])


class _Patterns:
    """Several patterns, of which one must match. The frequent forms are found without looking at each."""

    __slots__ = ("_exact", "_globs", "_prefixes")

    def __init__(self, patterns: Iterable[str]) -> None:
        split = [pattern.split(ANY) for pattern in patterns]
        self._exact = frozenset(parts[0] for parts in split if len(parts) == 1)
        self._prefixes = tuple(parts[0] for parts in split if len(parts) == 2 and not parts[1])
        self._globs = [parts for parts in split if len(parts) > 2 or (len(parts) == 2 and parts[1])]

    def match(self, name: str) -> bool:
        return (
            name.startswith(self._prefixes)
            or name in self._exact
            or any(_matches(parts, name) for parts in self._globs)
        )


def _matches(parts: list[str], name: str) -> bool:
    """Whether ``name`` is these parts with anything between them. Each middle part is taken where it stands first, so
    that no pattern takes long, as a regular expression with many stars may."""
    first, *middle, last = parts
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
