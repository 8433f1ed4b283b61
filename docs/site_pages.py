"""An extension of Sphinx: what makes pages that a Git host shows pages of the site, too, without a word of their own.

- Each section of the first page that lists pages becomes a part of the navigation, in that order.
- A link to a folder leads to its README; one to a Markdown file that is no page of the site leads to a copy of it.
- A link that shows the name of its page's file shows the title instead.
- Anchors that are written as ``<a id="..."></a>`` are known to links.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

FIRST_PAGE = "docs/index"
NUMBERED = {"docs/decisions/README"}
"""Pages that end with a list of the numbered pages beside them."""
SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n)*)", re.MULTILINE)
ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)#]+\.md)\)", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)")
FILE_NAME = re.compile(r"\[[\w./-]*?([\w-]+\.md)\](?=\((?:[^)#]*/)?\1[)#])")
ANCHOR = re.compile(r'<a id="([^"]+)"')


def with_navigation(text: str) -> str:
    """The first page, each of whose sections with a list of pages adds them to the navigation under its heading."""

    def add(section: re.Match[str]) -> str:
        pages = [
            f"{title} </{posixpath.normpath(f'docs/{page}').removesuffix('.md')}>"
            for title, page in ITEM.findall(section[2])
        ]
        return section[0] + (toctree(pages, [":hidden:", f":caption: {section[1]}"]) if pages else "")

    return SECTION.sub(add, text)


def toctree(entries: list[str], options: list[str]) -> str:
    """A directive that adds pages to the navigation."""
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", "", ""])


def with_site_links(text: str, folder: Path, is_page: Callable[[Path], bool]) -> str:
    """``text`` of a page in ``folder``, with links that the site can follow."""

    def change(link: re.Match[str]) -> str:
        target = folder / link[1]
        if target.is_dir() and is_page(target / "README.md"):
            return f"{link[1].rstrip('/')}/README.md"
        if target.suffix == ".md" and target.is_file() and not is_page(target):
            return f"path:{link[1]}"
        return link[1]

    return FILE_NAME.sub("[]", LINK.sub(change, text))


def read_source(app: Sphinx, page: str, content: list[str]) -> None:
    """Change the text of a page as it is read."""

    def is_page(path: Path) -> bool:
        return app.project.path2doc(path.resolve()) in app.project.docnames

    text = with_site_links(content[0], (app.srcdir / page).parent, is_page)
    if page == FIRST_PAGE:
        text = with_navigation(text)
    if page in NUMBERED:
        text += toctree(["[0-9]*"], [":glob:", ":maxdepth: 1"])
    content[0] = text


class AnchorsOfPages(SphinxTransform):
    """Makes anchors that are written in HTML known to links of this page and of others."""

    default_priority = 870  # before the links of a page are looked up

    def apply(self, **_more: object) -> None:
        """Add them to the anchors of headings."""
        slugs = getattr(self.document, "myst_slugs", None)
        if slugs is None:
            return
        for node in self.document.findall(nodes.raw):
            for anchor in ANCHOR.findall(node.astext()):
                slugs.setdefault(anchor, (node.line, anchor, anchor))
        self.env.metadata[self.env.docname]["myst_slugs"] = slugs


def without_empty_signature(
    _app: Sphinx,
    _what: str,
    _name: str,
    described: object,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """A contract is not called, so its class has no arguments."""
    if getattr(described, "_is_protocol", False) and isinstance(described, type):
        return "", None
    return signature, returns


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", read_source)
    app.connect("autodoc-process-signature", without_empty_signature)
    app.add_transform(AnchorsOfPages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
