"""What Sphinx is told for the documentation site; ``python docs/build_site.py`` builds it.

The source folder is the top of the repository. So links between pages stay relative Markdown links, which lead to the
same place on a plain Git host, and README.md, CONTRIBUTING.md and the like are pages of the site as they stand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import slotreeve

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for the two extensions

project = "slotreeve"
copyright = "the authors of slotreeve"
version = release = slotreeve.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_pages", "state_pictures"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**.md",
    "deploy/README.md",
    "examples/*/README.md",
]
exclude_patterns = [".*", "var", "dist", "**/__pycache__", "**/node_modules"]
source_suffix = {".md": "markdown"}

# Headings have the anchors that Git hosts give them.
myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
nitpicky = True
# Of a signature only what these pages describe is linked: not the standard library, libraries, and other rooms; nor
# variables of types, and classes that programs do not meet.
nitpick_ignore_regex = [
    ("py:class", r"slotreeve.*\.(T|Plugin|ConnectorOwner|LoopOwner|Watched|Asker|ServiceNames)"),
    ("py:.*", r"(?!slotreeve_client|slotreeve.ports).*"),
]

html_theme = "furo"
html_title = f"slotreeve {version}"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
# A page that was opened from the disk may not read others, which would give each hit its excerpt.
html_show_search_summary = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
