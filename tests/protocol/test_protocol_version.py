"""The version of the protocol rises where servers of two releases would not understand each other.

``golden/shape.json`` holds the shape of every message of the present version. What is added at the end of a message
with a default, and new messages, are understood by both. Everything else needs a new version, which servers of the
former one refuse in words (docs/operating.md).
"""

from __future__ import annotations

import copy
import enum
import json
import types
import typing
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from slotreeve.ports.transport import PROTOCOL_VERSION
from slotreeve_protocol.messages import AnyMessage

FILE = Path(__file__).parent / "golden" / "shape.json"
Shape = dict[str, typing.Any]


def shape_now() -> Shape:
    """Every message, and what it consists of: tags, fields in their order, types, defaults; numbers of enumerations."""
    found: dict[str, typing.Any] = {}
    for message in typing.get_args(AnyMessage):
        _add(message, found)
    return {"version": PROTOCOL_VERSION, "types": dict(sorted(found.items()))}


def _add(kind: typing.Any, found: dict[str, typing.Any]) -> None:
    for part in typing.get_args(kind):
        _add(part, found)
    if not isinstance(kind, type) or kind.__name__ in found:
        return
    if issubclass(kind, enum.Enum):
        found[kind.__name__] = {member.name: member.value for member in kind}
    elif issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        fields = [[f.name, _text(hints[f.name]), f.required] for f in msgspec.structs.fields(kind)]
        found[kind.__name__] = {"tag": kind.__struct_config__.tag, "fields": fields}
        for hint in hints.values():
            _add(hint, found)


def _text(hint: typing.Any) -> str:
    if not typing.get_args(hint):
        return getattr(hint, "__name__", str(hint))
    origin = types.UnionType if typing.get_origin(hint) is typing.Union else typing.get_origin(hint)
    name = getattr(origin, "__name__", str(origin))
    return f"{name}[{', '.join(map(_text, typing.get_args(hint)))}]"


def misunderstood(before: Shape, now: Shape) -> list[str]:
    """What a server with one of these shapes would not understand of one with the other."""
    if before["version"] != now["version"]:
        return [f"the version is {now['version']}; the shape is that of version {before['version']}"]
    problems = []
    by_tag = {new["tag"]: new for new in now["types"].values() if new.get("tag") is not None}
    for name, old in before["types"].items():
        new = now["types"].get(name, by_tag.get(old.get("tag")))
        if new is None:
            problems.append(f"{name} is gone")
        elif "fields" not in old:
            problems += [f"{name} had the members {old}"] if new != old else []
        else:
            if new["tag"] != old["tag"]:
                problems.append(f"{name} had the tag {old['tag']}")
            if _on_the_wire(new["fields"][: len(old["fields"])]) != _on_the_wire(old["fields"]):
                problems.append(f"{name} had the fields {old['fields']}")
            added = new["fields"][len(old["fields"]) :]
            problems += [f"{name}.{field[0]} is new and has no default" for field in added if field[2]]
    return problems


def _on_the_wire(fields: list[list[typing.Any]]) -> list[list[typing.Any]]:
    """A message is a list: its name and those of its fields are not on the wire, only its tag is."""
    return [field[1:] for field in fields]


def unwritten(before: Shape, now: Shape) -> list[str]:
    """What is new, and must be written down, so that its own changes are noticed."""
    old, new = before["types"], now["types"]
    return [f"{name} is new, or has new fields" for name in new if new[name] != old.get(name)]


def test_what_other_releases_would_not_understand_has_another_version(
    request: pytest.FixtureRequest, rewrite_transcripts: bool
) -> None:
    now = shape_now()
    if rewrite_transcripts:
        lines = [f'"{name}": {json.dumps(shape)}' for name, shape in now["types"].items()]
        FILE.write_text(f'{{"version": {now["version"]}, "types": {{\n' + ",\n".join(lines) + "\n}}\n")
    before = json.loads(FILE.read_text())
    new = unwritten(before, now)
    problems = misunderstood(before, now)
    assert not problems, "\n".join(
        [
            *problems,
            "raise PROTOCOL_VERSION (kernel/slotreeve/ports/transport.py), say in docs/operating.md how to change over",
            f"and write the new shape: pytest {request.node.nodeid.partition('::')[0]} --rewrite-transcripts",
        ]
    )
    assert not new, "\n".join([*new, f"write it down: pytest {request.node.nodeid} --rewrite-transcripts"])


def test_each_change_that_is_misunderstood_is_noticed() -> None:
    before = shape_now()
    write = before["types"]["SlotWrite"]["fields"]

    def found(change: Callable[[Shape], None]) -> int:
        now = copy.deepcopy(before)
        change(now["types"])
        return len(misunderstood(before, now))

    assert found(lambda types: None) == 0
    assert found(lambda types: types["SlotWrite"]["fields"].append(["more", "int", False])) == 0
    assert found(lambda types: types.update(Another={"tag": 200, "fields": []})) == 0
    assert len(unwritten(before, {**before, "types": {**before["types"], "Another": {"tag": 200, "fields": []}}})) == 1
    assert found(lambda types: types["SlotWrite"]["fields"].append(["more", "int", True])) == 1
    assert found(lambda types: types["SlotWrite"]["fields"].pop()) == 1
    assert found(lambda types: types["SlotWrite"]["fields"].insert(0, write[-1])) > 0
    assert found(lambda types: types["SlotWrite"]["fields"][0].__setitem__(1, "str")) == 1
    assert found(lambda types: types["SlotWrite"]["fields"][0].__setitem__(0, "number")) == 0
    assert found(lambda types: types.update(Written=types.pop("Write"))) == 0
    assert found(lambda types: types["Write"].update(tag=41)) == 1
    assert found(lambda types: types.pop("Write")) == 1
    assert found(lambda types: types["Access"].update(ACCEPT=7)) == 1
    assert found(lambda types: types["Access"].update(NEVER=4)) == 1
    assert len(misunderstood(before, {**before, "version": before["version"] + 1})) == 1


def test_the_shape_holds_what_messages_consist_of() -> None:
    types = shape_now()["types"]
    assert {"Publisher", "Slot", "Node", "SlotCopies", "Access", "Role"} <= types.keys()
    assert types["SlotAnswer"]["fields"] == [
        ["slot", "int", True],
        ["access", "Access", True],
        ["leader_epoch", "int", True],
    ]
