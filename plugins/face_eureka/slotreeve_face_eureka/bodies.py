"""Bodies of Eureka, in JSON and XML. Pure.

Both have the same shape: an object with texts and objects in it. In JSON, what is an attribute in XML begins with
``@``, and the text beside attributes is ``$``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import msgspec
from slotreeve_gateway.http import BadBody, decoded

Tree = Mapping[str, object]
DEEPEST = 6
_objects: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*").fullmatch
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def instance_of(body: bytes, is_xml: bool) -> Tree:
    """The instance in the body of a registration.

    Raises:
        BadBody: it is not JSON or XML, or no instance; the message says what is wrong.
    """
    if is_xml:
        root = _parsed(body)
        if root.tag != "instance":
            raise BadBody(f"body: the root is <{root.tag[:40]}>; expected <instance>")
        found = _tree(root, 0)
    else:
        given: dict[str, object] = decoded(body, _objects)
        found = given.get("instance")
    if not isinstance(found, dict):
        raise BadBody("body: there is no instance in it")
    return found


def _parsed(body: bytes) -> ElementTree.Element:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise BadBody("body: it is not UTF-8") from None
    if "<!" in text:
        # Declarations define entities, which can be made to grow without bound, or name files.
        raise BadBody("body: it contains <!; declarations, comments and CDATA are refused")
    try:
        return ElementTree.fromstring(text)  # noqa: S314 - without declarations there are no entities to expand
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise BadBody(f"body: {error}") from None


def _tree(element: ElementTree.Element, depth: int) -> object:
    if depth > DEEPEST:
        raise BadBody(f"body: it is nested deeper than {DEEPEST} elements")
    found: dict[str, object] = {f"@{name}": value for name, value in element.attrib.items()}
    found |= {child.tag: _tree(child, depth + 1) for child in element}
    text = (element.text or "").strip()
    if not found:
        return text
    return found | ({"$": text} if text else {})


def xml(tag: str, value: object) -> str:
    """A value as XML. Keys that cannot be names of elements are left out, and characters that XML does not have."""
    if isinstance(value, list):
        return "".join(xml(tag, one) for one in value)
    if not isinstance(value, dict):
        return f"<{tag}>{escape(_text(value))}</{tag}>"
    given = [(key[1:], one) for key, one in value.items() if key.startswith("@") and _NAME(key[1:])]
    attributes = "".join(f" {name}={quoteattr(_text(one))}" for name, one in given)
    inner = escape(_text(value["$"])) if "$" in value else ""
    inner += "".join(xml(key, one) for key, one in value.items() if _NAME(key))
    return f"<{tag}{attributes}>{inner}</{tag}>"


def _text(value: object) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return _NOT_IN_XML.sub("", text)
