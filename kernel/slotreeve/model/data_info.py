"""The name of a service (original: ``DataInfo``)."""

from __future__ import annotations

import msgspec

from slotreeve.errors import ModelError
from slotreeve.model.text import check_text

DELIMITER = "#@#"
_BEGUN = DELIMITER[:-1]
_PARTS = ("the data id", "the instance id", "the group")
DEFAULT_GROUP = "DEFAULT_GROUP"
DEFAULT_INSTANCE = "DEFAULT_INSTANCE_ID"
MAX_LENGTH = 2048


class DataInfo(msgspec.Struct, frozen=True, order=True):
    """The three parts of a service's name. The slot function maps their joined text, ``id``, to a slot.

    Attributes:
        data_id: the service, e.g. ``com.example.Greeter``.
        instance_id: the tenant or environment, ``DEFAULT_INSTANCE_ID`` by default.
        group: ``DEFAULT_GROUP`` by default.

    Raises:
        ModelError: a part is blank, holds the delimiter ``#@#`` or ends with the beginning ``#@`` of one, cannot be
            encoded in UTF-8, or the whole exceeds 2,048 characters.
    """

    data_id: str
    instance_id: str = DEFAULT_INSTANCE
    group: str = DEFAULT_GROUP

    def __post_init__(self) -> None:
        """Check the parts."""
        parts = [self.data_id, self.instance_id, self.group]
        for name, part in zip(_PARTS, parts, strict=True):
            check_text(name, part, MAX_LENGTH)
        _check_parts(parts)
        length = len(self.data_id) + len(self.instance_id) + len(self.group) + 2 * len(DELIMITER)
        if length > MAX_LENGTH:
            raise ModelError(f"{self.id[:40]!r}... has {length} characters; {MAX_LENGTH} is the limit")

    @property
    def id(self) -> str:
        """``data_id#@#instance_id#@#group``: the data info id."""
        return f"{self.data_id}{DELIMITER}{self.instance_id}{DELIMITER}{self.group}"

    @classmethod
    def parse(cls, text: str) -> DataInfo:
        """Read a data info id, or a data id alone, which gets the default instance and group.

        Raises:
            ModelError: ``text`` has neither one nor three parts, or a part is not good.
        """
        parts = _split(text)
        return cls(*parts) if len(parts) == 3 else cls(text)


def check_data_info_id(text: str) -> None:
    """Check a whole data info id, at less cost than :meth:`DataInfo.parse`.

    Raises:
        ModelError: ``text`` has not three parts, or a part is not good.
    """
    parts = _split(text)
    if len(parts) == 1:
        raise ModelError(f"{text!r} lacks its instance and group; send the whole data info id")
    _check_parts(parts)


def _split(text: str) -> list[str]:
    check_text("the data info id", text, MAX_LENGTH)
    parts = text.split(DELIMITER)
    if len(parts) not in {1, 3}:
        raise ModelError(
            f"{text!r} has {len(parts)} parts; a data info id is a data id, "
            f"or data id, instance id and group joined by {DELIMITER!r}"
        )
    return parts


def _check_parts(parts: list[str]) -> None:
    for name, part in zip(_PARTS, parts, strict=True):
        if not part or part.isspace():
            raise ModelError(f"{name} of {DELIMITER.join(parts)!r} is blank; each of the three parts needs text")
        if _BEGUN not in part:
            continue
        if DELIMITER in part:
            raise ModelError(f"{name} {part!r} holds the delimiter {DELIMITER!r}")
        if part.endswith(_BEGUN):
            raise ModelError(
                f"{name} {part!r} ends with {_BEGUN!r}; before the delimiter {DELIMITER!r} that would "
                "read as another name"
            )


def short_name(data_info_id: str) -> str:
    """A service for people: without an instance id and a group that are the default."""
    return data_info_id.removesuffix(f"{DELIMITER}{DEFAULT_INSTANCE}{DELIMITER}{DEFAULT_GROUP}")
