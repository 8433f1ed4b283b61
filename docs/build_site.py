"""Builds the documentation site below ``var/site`` from the Markdown pages: ``python docs/build_site.py``.

Every warning is an error: a link or an anchor that leads nowhere, a page that the navigation does not have, a docstring
that is no good reStructuredText. The exit code is 1 then.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
ENTRY = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>slotreeve</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
</head>
<body><a href="docs/index.html">The documentation of slotreeve</a></body>
</html>
"""
"""The file at the top of the site."""


def build(target: Path, source: Path = ROOT) -> int:
    """Build the site anew in ``target`` from the tree at ``source``; returns the exit code of Sphinx."""
    shutil.rmtree(target, ignore_errors=True)
    options = ["--fail-on-warning", "--keep-going", "--nitpicky", "--quiet", "--fresh-env"]
    with tempfile.TemporaryDirectory() as read:
        found = build_main([*options, "-b", "html", "-c", str(DOCS), "-d", read, str(source), str(target)])
    if found == 0:
        (target / "index.html").write_text(ENTRY, encoding="utf-8")
    return found


def main() -> int:
    """Build the site as the command line says."""
    parser = argparse.ArgumentParser(description="Build the documentation site; every warning is an error.")
    parser.add_argument("target", nargs="?", type=Path, default=ROOT / "var" / "site", help="its folder; made anew")
    parser.add_argument("--source", type=Path, default=ROOT, help="the top of the tree whose pages are read")
    given = parser.parse_args()
    target = given.target.resolve()
    found = build(target, given.source.resolve())
    if found == 0:
        print(f"the site begins at {target / 'index.html'}")
    return found


if __name__ == "__main__":
    sys.exit(main())
