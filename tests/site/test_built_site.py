"""The look at a built site sees what it looks for; and the first page of the documentation lists all others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.site.built_site import BuiltSite

DOCS = Path(__file__).resolve().parents[2] / "docs"


def site(folder: Path, body: str, style: str = "") -> BuiltSite:
    (folder / "other.html").write_text('<h1 id="here">There</h1><a name="old">x</a>')
    (folder / "style.css").write_text(style)
    (folder / "page.html").write_text(f"<html><body>{body}</body></html>")
    return BuiltSite(folder)


def test_what_is_loaded_from_another_host_is_found(tmp_path: Path) -> None:
    loads = [
        '<script src="https://a.example/x.js"></script>',
        '<link rel="preload stylesheet" href="//b.example/x.css">',
        '<img src="other.html" srcset="http://c.example/1.png 1x, other.html 2x">',
        '<p style="background: url(https://d.example/x.png)">',
        "<style>@import 'https://e.example/x.css';</style>",
        '<iframe src="https://f.example/"></iframe>',
        '<a href="https://link.example/">a link is loaded only by who follows it</a>',
        '<img src="data:image/png;base64,AA"><script src="other.html"></script>',
    ]
    found = [*site(tmp_path, "".join(loads), "@font-face { src: url('https://g.example/x.woff2') }").from_elsewhere()]
    assert [re.findall(r"//(\w)\.example", line) for line in found] == [[letter] for letter in "abcdefg"]


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    links = [
        "other.html",
        "other.html#here",
        "other.html#old",
        "#top",
        "page.html#top",
        "https://a.example/",
        "style.css#x",
    ]
    bad = ["gone.html", "other.html#gone", "#gone", "../other.html"]
    body = '<p id="top">' + "".join(f'<a href="{link}">x</a>' for link in [*links, *bad]) + '<img src="gone.png">'
    assert [line.removeprefix("page.html leads to ") for line in site(tmp_path, body).dead()] == [*bad, "gone.png"]


def test_the_first_page_lists_every_page_of_the_folder_once() -> None:
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): ", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len({*listed})
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"index.md"}
    numbered = {page for page in pages if re.match(r"decisions/\d{4}-", page)}  # decisions/README.md lists them
    assert {page for page in listed if not page.startswith("../")} == pages - numbered
