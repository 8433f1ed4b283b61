"""The documentation site is built without a warning, needs nothing of the network, and no link of it leads nowhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site.built_site import BuiltSite

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]
INDEX = "# First\n\n## Start\n\n- [Other](other.md): a page\n"


def build(target: Path, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "docs" / "build_site.py"), str(target), "--source", str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> BuiltSite:
    target = tmp_path_factory.mktemp("site") / "site"
    done = build(target)
    assert done.returncode == 0, done.stderr
    return BuiltSite(target)


def test_every_page_is_built_and_stands_in_the_navigation(site: BuiltSite) -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    names = {str(path.relative_to(ROOT).with_suffix(".html")) for path in pages}
    assert len(names) > 80
    assert names <= {site.name(path) for path in site.pages}
    text = (site.folder / "docs" / "decisions" / "README.html").read_text(encoding="utf-8")
    (navigation,) = re.findall(r'<div class="sidebar-tree">.*?\n</div>', text, re.DOTALL)
    for page in sorted(names - {"docs/index.html", "docs/decisions/README.html"}):
        link = (
            page.removeprefix("docs/decisions/")
            if "/decisions/" in page
            else f"../../{page}".replace("../../docs/", "../")
        )
        assert f'href="{link}"' in navigation, page


def test_nothing_is_loaded_from_another_host(site: BuiltSite) -> None:
    assert [*site.from_elsewhere()] == []


def test_no_link_and_no_anchor_leads_nowhere(site: BuiltSite) -> None:
    assert sum(len(page.links) for page in site.pages.values()) > 5_000
    assert [*site.dead()] == []


def test_the_top_of_the_site_leads_to_the_first_page(site: BuiltSite) -> None:
    assert "docs/index.html" in site.pages[site.folder / "index.html"].links


def test_links_of_files_outside_lead_to_copies_of_them(site: BuiltSite) -> None:
    balancer = (site.folder / "docs" / "plugins.html").read_text(encoding="utf-8")
    (copied,) = re.findall(r'href="\.\./(_downloads/\w+/balancer\.py)"', balancer)
    assert (site.folder / copied).read_text() == (ROOT / "kernel/slotreeve/ports/balancer.py").read_text()


def test_the_search_index_stands_in_the_site(site: BuiltSite) -> None:
    text = (site.folder / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    assert "docs/leases" in index["docnames"]
    assert index["docnames"].index("docs/leases") in index["titleterms"]["leas"]


def test_the_pictures_of_states_are_drawn_and_the_docstrings_are_there(site: BuiltSite) -> None:
    for page in ("copies", "endings"):
        text = (site.folder / "docs" / f"{page}.html").read_text(encoding="utf-8")
        assert text.count('<svg xmlns="http://www.w3.org/2000/svg" class="states"') == 1
        assert "stateDiagram" not in text
    assert {
        "slotreeve_client.Client.publish",
        "slotreeve_client.connect",
        "slotreeve_client.threads.BlockingPublication",
    } <= anchors(site, "api-client")
    assert {"slotreeve.ports.Balancer.balance", "slotreeve.ports.Election"} <= anchors(site, "api-ports")


def anchors(site: BuiltSite, page: str) -> set[str]:
    return site.pages[site.folder / "docs" / f"{page}.html"].anchors


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("[x](gone.md)", "'gone.md'"),
        ("[x](index.md#gone)", "'gone'"),
        ("[x](#gone)", "'gone'"),
        ("![x](gone.png)", "image file not readable"),
        ("#### Four levels down", "Non-consecutive header level increase"),
        ("```nolanguage\nx\n```", "'nolanguage'"),
        ("```mermaid\npie\n```", "a diagram has lines"),
        ("```{eval-rst}\n.. automodule:: slotreeve_client.gone\n```", "slotreeve_client.gone"),
        ("```{eval-rst}\n:class:`slotreeve.ports.Gone`\n```", "slotreeve.ports.Gone"),
    ],
)
def test_a_page_with_a_mistake_is_refused(page: str, complaint: str, tmp_path: Path) -> None:
    done = build_pages(tmp_path, {"index": INDEX, "other": f"# Other\n\n{page}\n"})
    assert done.returncode != 0
    assert complaint in done.stderr
    assert not (tmp_path / "site" / "index.html").exists()


def test_a_page_that_no_navigation_has_is_refused(tmp_path: Path) -> None:
    assert build_pages(tmp_path, {"index": INDEX, "other": "# Other\n"}).returncode == 0
    done = build_pages(tmp_path, {"index": INDEX, "other": "# Other\n", "lost": "# Lost\n"})
    assert done.returncode != 0
    assert "lost.md: WARNING: document isn't included in any toctree" in done.stderr


def build_pages(folder: Path, pages: dict[str, str]) -> subprocess.CompletedProcess[str]:
    docs = folder / "tree" / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    docs.mkdir(parents=True)
    for name, text in pages.items():
        (docs / f"{name}.md").write_text(text)
    return build(folder / "site", folder / "tree")
