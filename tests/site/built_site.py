"""What a reader's browser would look for in a built site: links that lead nowhere, and anything from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PLAYED = ("video", "audio", "embed", "object", "track")
LOADED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    **dict.fromkeys(PLAYED, ("src", "data", "poster")),
}
"""Attributes that a browser loads at once."""
LOADING_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch", "manifest"}
IN_STYLE = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


class PageReader(HTMLParser):
    """Reads one page: its anchors, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self._in_style = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and LOADING_LINKS & {*given.get("rel", "").split()}:
            self.loads.append(given.get("href", ""))
        for name in LOADED.get(tag, ()):
            if name in given:
                found = given[name].split(",") if name == "srcset" else [given[name]]
                self.loads += [each.split()[0] for each in found if each.strip()]
        self.loads += in_style(given.get("style", ""))
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        """Text, of which only that of styles counts."""
        if self._in_style:
            self.loads += in_style(data)

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        self._in_style = self._in_style and tag != "style"


def in_style(text: str) -> list[str]:
    """What a style sheet loads."""
    return [one or other for one, other in IN_STYLE.findall(text)]


class BuiltSite:
    """The site in a folder. What is found is given as sentences."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: Mapping[Path, PageReader] = {
            path: PageReader(path.read_text(encoding="utf-8"))
            for path in sorted(folder.rglob("*.html"))
            if "_downloads" not in path.parts and "_static" not in path.parts
        }

    def name(self, path: Path) -> str:
        """The path of a file in the site."""
        return str(path.relative_to(self.folder))

    def from_elsewhere(self) -> Iterator[str]:
        """What pages and style sheets load from another host."""
        for path, page in self.pages.items():
            yield from (f"{self.name(path)} loads {load}" for load in page.loads if is_elsewhere(load))
        for path in sorted(self.folder.rglob("*.css")):
            loads = in_style(path.read_text(encoding="utf-8"))
            yield from (f"{self.name(path)} loads {load}" for load in loads if is_elsewhere(load))

    def dead(self) -> Iterator[str]:
        """Links of pages, and what they load, that lead to no file or to no anchor of its page."""
        for path, page in self.pages.items():
            for target in dict.fromkeys([*page.links, *page.loads]):
                if not urlsplit(target).scheme and not target.startswith("//") and not self._leads(path, target):
                    yield f"{self.name(path)} leads to {target}"

    def _leads(self, path: Path, target: str) -> bool:
        parts = urlsplit(target)
        file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not _is_file(file):
            return False
        anchor = unquote(parts.fragment)
        return not anchor or file not in self.pages or anchor in self.pages[file].anchors


def is_elsewhere(target: str) -> bool:
    """Whether a browser would ask another host for it."""
    return target.startswith("//") or urlsplit(target).scheme not in ("", "data")


@cache
def _is_file(path: Path) -> bool:
    return path.is_file()
