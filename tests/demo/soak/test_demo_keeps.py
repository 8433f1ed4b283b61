"""``slotreeve demo --keep``: the cluster of the demonstration, to look at."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.processes


def test_the_cluster_goes_on_with_its_console_until_it_is_interrupted(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join(f"com.example.Service{number}" for number in range(20)))
    command = [sys.executable, "-m", "slotreeve_cli", "demo", "--keep", "--names", str(names)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = ""
        while not url:
            line = process.stderr.readline()
            assert line, "it ended"
            url = "".join(re.findall(r"look at it: (http://\S+/ui/)", line))
        assert "com.example.Service7" in httpx.get(f"{url}services", timeout=60).text
        text = httpx.get(f"{url}history", timeout=60).text
        assert "data server data-" in text
        assert "left: connection lost" in text
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert "0 missing" in said
    finally:
        process.kill()
        process.wait()
