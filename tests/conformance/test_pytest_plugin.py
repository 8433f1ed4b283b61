"""The plugin for pytest costs nobody anything who does not use it."""

from __future__ import annotations

import subprocess
import sys


def test_loading_the_plugin_imports_nothing_else() -> None:
    program = """
import sys, pytest
before = set(sys.modules)
import slotreeve_conformance.pytest_plugin
print(sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "['slotreeve_conformance', 'slotreeve_conformance.pytest_plugin']"
