"""Every section, rule and scenario that the FLE election cites is on the page docs/fle.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.election_fle.test_fle_scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fle.md"
ANCHORS = re.findall(r'<a id="([^"]+)"></a>', PAGE.read_text())
CITING = sorted(
    path
    for room in ("plugins/election_fle", "tests/election_fle")
    for path in (ROOT / room).rglob("*")
    if path.suffix in {".py", ".txt"}
)
NUMBERED = re.compile(r"\b([SR]\d{1,2})\b|\btest_((?:s\d+_)+)")
SECTIONS = re.compile(r"docs/fle\.md,[^;:)\"]*")


def cited(text: str) -> Iterator[str]:
    for number, scenarios in NUMBERED.findall(text):
        yield from [number.lower()] if number else re.findall(r"s\d+", scenarios)
    for citation in SECTIONS.findall(text):
        yield from re.findall(r"\b\d(?:\.\d)?\b", citation)


def test_the_page_has_each_anchor_once_and_every_scenario() -> None:
    assert len(set(ANCHORS)) == len(ANCHORS)
    assert [int(anchor[1:]) for anchor in ANCHORS if anchor.startswith("s")] == SCENARIOS


@pytest.mark.parametrize("path", CITING, ids=lambda path: path.name)
def test_what_a_file_cites_is_on_the_page(path: Path) -> None:
    missing = set(cited(path.read_text())) - set(ANCHORS)
    assert not missing, f"{path} cites {sorted(missing)}"


def test_references_of_all_kinds_are_found() -> None:
    text = "docs/fle.md, sections 6.1 and 8; R2, S86. def test_s79_s80_neither() -> None: # 7.5 s is no reference"
    assert sorted(cited(text)) == ["6.1", "8", "r2", "s79", "s80", "s86"]
