"""Rules on references in pages, docstrings and comments: each leads somewhere inside the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests.lints.rooms import ROOT
from tests.lints.sources import Finding

INVARIANT = re.compile(r"\bI([1-9]\d?)\b")
DOCUMENT = re.compile(r"\b(?:docs|proving/benchmarks|examples)/[\w./-]*\w")
TEST = re.compile(r"`(tests/[\w/]+\.py)`")
DECISION = re.compile(r"\bdecisions?[/ ](\d{4})\b")
SCENARIO = re.compile(r"\bS([1-9]\d{0,2})\b")
SECTION = re.compile(r"\b[Ss]pec(?:ification)?(?: sections?)? (\d+(?:\.\d+)+)")

Prose = Iterable[tuple[str, str]]
"""Place and text."""


def explains_scenario(page: str, number: str) -> bool:
    """An anchor, a heading, a row of a table or an item of a list that begins with ``S<number>``."""
    marks = (f'id="s{number}"', f'id="S{number}"')
    return any(mark in page for mark in marks) or bool(
        re.search(rf"^(#+ +|\|\s*|[-*] +)(\*\*)?S{number}\b", page, re.MULTILINE)
    )


def explains_section(page: str, number: str) -> bool:
    """An anchor or a heading with this number, or a row of a table that begins with it."""
    marks = (f'id="{number}"', f'id="spec-{number}"', f'id="section-{number}"')
    return any(mark in page for mark in marks) or bool(
        re.search(rf"^(#+ +|\|\s*)(\*\*)?[§]?{re.escape(number)}(?![\d.]\d)", page, re.MULTILINE)
    )


def unlisted_invariants(prose: Prose) -> Iterator[Finding]:
    """Invariants that are named and are not in docs/invariants.md."""
    listed = set(re.findall(r'id="i(\d+)"', (ROOT / "docs/invariants.md").read_text(encoding="utf-8")))
    for place, text in prose:
        for number in sorted({*INVARIANT.findall(text)} - listed):
            yield Finding(place, f"names the invariant I{number}", "docs/invariants.md has no such row")


def missing_documents(prose: Prose) -> Iterator[Finding]:
    """Documents, tests and decisions that are named and are not there."""
    for place, text in prose:
        for name in [*DOCUMENT.findall(text), *TEST.findall(text)]:
            if not (ROOT / name).exists():
                yield Finding(place, f"names {name}", "there is no such file")
        for number in DECISION.findall(text):
            if not list((ROOT / "docs/decisions").glob(f"{number}-*.md")):
                yield Finding(place, f"names the decision {number}", "docs/decisions has no such page")


def unexplained(prose: Prose) -> Iterator[Finding]:
    """Scenarios and sections of the election that are named and that docs/fle.md does not explain."""
    page = (ROOT / "docs/fle.md").read_text(encoding="utf-8")
    for place, text in prose:
        for number in SCENARIO.findall(text):
            if not explains_scenario(page, number):
                yield Finding(place, f"names the scenario S{number}", "docs/fle.md does not explain it")
        for number in SECTION.findall(text):
            if not explains_section(page, number):
                yield Finding(place, f"names the section {number}", "docs/fle.md does not explain it")
