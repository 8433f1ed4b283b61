"""A wrong command fails before Spark starts, with the documented exit code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from slotreeve_cli.main import main


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("compare slot-functions --functions crc32", 2, "SR110: .*did you mean 'crc32c'"),
        ("compare slot-functions --slots 8,4", 2, "SR100: --slots 8, 4: expected ascending"),
        ("compare slot-functions --slots few", 2, "--slots few: expected whole numbers"),
        ("compare slot-functions --conf memory", 2, "--conf memory: expected key=value"),
        ("compare slot-functions --out file/below", 1, "SR130: .*choose another --out"),
        ("compare balancers --balancers evn", 2, "SR110: .*did you mean 'even'"),
        ("compare balancers --traces nowhere.jsonl", 2, "SR100: .*no file of that name"),
        ("compare balancers --traces file", 2, "SR120: file, line 1"),
        ("compare balancers --plugin-wheel nowhere.whl", 2, "SR100: --plugin-wheel nowhere.whl: cannot be read"),
        ("compare elections --scenarios hit", 2, "SR100: there is no scenario 'hit'"),
        ("ingest nowhere", 2, "SR100: nowhere: there is no such directory of event logs"),
        ("ingest . --warehouse file/below", 1, "SR130: file/below"),
        ("marts --warehouse nowhere", 2, "SR100: nowhere: there is no such warehouse"),
        ("at yesterday --warehouse .", 2, "SR100: 'yesterday' is no moment"),
        ("seed nowhere --from 1 --to 2", 2, "SR100: nowhere: there is no such warehouse"),
        ("seed . --from yesterday --to 2", 2, "SR100: 'yesterday' is no moment"),
        ("seed . --from 2000 --to 1000", 2, "SR100: --from 1970-.*: the end must be later, at most an hour"),
        ("seed . --from 1 --to 2 --out file", 2, "SR100: file: there is such a file; .* or --force to replace it"),
        ("seed . --from 1 --to 2 --out file/below", 1, "SR130: file/below: cannot be written: .*choose another --out"),
    ],
)
def test_a_wrong_command_ends_at_once_with_its_exit_code(
    java: None,
    command: str,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("no trace")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["slotreeve", "spark", *command.split()])
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    printed = capsys.readouterr().err
    assert "starting Spark" not in printed
    assert re.search(message, printed), printed
