"""Every reference in documents, docstrings and comments leads somewhere inside the repository."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    *("kernel", "protocol", "machines", "events", "plugins", "servers", "client", "conformance", "simulator", "chaos"),
    *("harness", "bench", "demo", "spark", "cli", "benchmarks", "examples", "docs", "tests"),
)
PYTHON = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])

INVARIANT = re.compile(r"\bI([1-9]\d?)\b")
DOCUMENT = re.compile(r"\b(?:docs|benchmarks|examples)/[\w./-]*\w")
DECISION = re.compile(r"\bdecisions?[/ ](\d{4})\b")
SCENARIO = re.compile(r"\bS([1-9]\d{0,2})\b")
SECTION = re.compile(r"\b[Ss]pec(?:ification)?(?: sections?)? (\d+(?:\.\d+)+)")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
STARTS_TEXT = (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENCODING, tokenize.COMMENT)


@cache
def prose(path: Path) -> str:
    """A page without the targets of its links, which test_docs.py follows; of a module its comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    return LINK_TARGET.sub("]", text) if path.suffix == ".md" else "\n".join(prose_of_module(text))


def prose_of_module(source: str) -> Iterator[str]:
    before = tokenize.ENCODING
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and before in STARTS_TEXT):
            yield token.string
        before = token.type


@cache
def election_page() -> str:
    return (ROOT / "docs/fle.md").read_text(encoding="utf-8")


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


@pytest.mark.parametrize("path", [*PYTHON, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_an_invariant_that_is_named_is_listed(path: Path) -> None:
    listed = set(re.findall(r'id="i(\d+)"', (ROOT / "docs/invariants.md").read_text(encoding="utf-8")))
    assert set(INVARIANT.findall(prose(path))) <= listed


@pytest.mark.parametrize("path", [*PYTHON, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_that_is_named_is_there(path: Path) -> None:
    missing = [name for name in DOCUMENT.findall(prose(path)) if not (ROOT / name).exists()]
    assert not missing
    numbers = DECISION.findall(prose(path))
    assert [number for number in numbers if not list((ROOT / "docs/decisions").glob(f"{number}-*.md"))] == []


@pytest.mark.parametrize("path", [*PYTHON, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_scenario_or_section_of_the_election_is_explained(path: Path) -> None:
    text = prose(path)
    scenarios, sections = SCENARIO.findall(text), SECTION.findall(text)
    if not scenarios and not sections:
        return
    page = election_page()
    assert [f"S{number}" for number in scenarios if not explains_scenario(page, number)] == []
    assert [number for number in sections if not explains_section(page, number)] == []


def test_what_counts_as_an_explanation() -> None:
    page = '## 5.4 Leases\n\n| S2 | a row |\n\n- **S85** an item\n\n<a id="s7"></a>\n\nS9 in a sentence\n'
    assert [n for n in ("2", "7", "9", "85", "8") if explains_scenario(page, n)] == ["2", "7", "85"]
    assert [n for n in ("5.4", "5", "5.4.6") if explains_section(page, n)] == ["5.4", "5"][:1]


def test_comments_and_docstrings_are_read_and_other_texts_are_not() -> None:
    source = '"""S1"""\nx = "S2"  # S3\n\n\ndef f() -> str:\n    """S4"""\n    return "S5"\n'
    assert SCENARIO.findall("\n".join(prose_of_module(source))) == ["1", "3", "4"]
