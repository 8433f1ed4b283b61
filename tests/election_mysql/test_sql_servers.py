"""Where a server's programs are missing, the error names what is missing and how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotreeve_chaos.sql_programs import ServerMissing
from slotreeve_chaos.sql_servers import MariaDbServer


def test_without_mariadb_and_without_apt_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLOTREEVE_SERVERS_DIR", str(tmp_path / "servers"))
    monkeypatch.setattr("shutil.which", lambda *_arguments, **_named: None)
    with pytest.raises(ServerMissing, match="put mariadbd on PATH"):
        MariaDbServer(tmp_path / "server").start()
