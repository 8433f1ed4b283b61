"""Rows as tables and as lines for programs."""

from __future__ import annotations

import pytest
from slotreeve.model.data_info import short_name
from slotreeve_cli.options import Output, Rows
from slotreeve_cli.printing import print_rows

ROWS: list[dict[str, object]] = [
    {
        "name": "data-1",
        "address": "127.0.0.1:11720",
        "since": "2026-01-01T00:00:00.000Z",
        "what": "a server that holds the slots of this cluster and has more to say than fits beside it",
        "process_id": "0123456789abcdef0123456789abcdef",
        "slots": 12,
    },
    {"name": "data-2", "address": None, "since": "-", "what": "tab\tand\nend", "process_id": "x", "slots": 3},
]


def printed(capsys: pytest.CaptureFixture[str], output: Output | Rows, width: int, **more: tuple[str, ...]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        print_rows(ROWS, output, **more)  # type: ignore[arg-type]
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [30, 80, 300])
def test_no_word_is_broken_however_narrow_the_terminal_is(capsys: pytest.CaptureFixture[str], width: int) -> None:
    words = printed(capsys, Rows.WIDE, width).split()
    for row in ROWS[:1]:
        assert {word for value in row.values() for word in str(value).split()} <= {*words}


def test_a_table_fits_eighty_columns_where_its_words_do(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, Rows.TABLE, 80, only_wide=("process_id",))
    assert max(map(len, text.splitlines())) <= 80
    assert "process_id" not in text
    assert "process_id" in printed(capsys, Rows.WIDE, 80, only_wide=("process_id",))


def test_a_table_that_does_not_fit_keeps_each_row_in_one_line_of_columns(capsys: pytest.CaptureFixture[str]) -> None:
    first = printed(capsys, Rows.WIDE, 40).splitlines()[1]
    for word in ("data-1", "127.0.0.1:11720", "2026-01-01T00:00:00.000Z", "0123456789abcdef0123456789abcdef"):
        assert word in first


def test_lines_for_programs_have_every_column_and_one_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, Rows.TSV, 40, only_wide=("process_id",)).splitlines()
    assert lines[0].split("\t") == [*ROWS[0]]
    assert lines[2].split("\t") == ["data-2", "-", "-", "tab\\tand\\nend", "x", "3"]
    print_rows([], Rows.TSV)
    assert capsys.readouterr().out == "\n"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a.B#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", "a.B"),
        ("a.B#@#DEFAULT_INSTANCE_ID#@#DUBBO", "a.B#@#DEFAULT_INSTANCE_ID#@#DUBBO"),
        ("a.B#@#tenant#@#DEFAULT_GROUP", "a.B#@#tenant#@#DEFAULT_GROUP"),
    ],
)
def test_a_service_has_its_short_name_where_the_rest_is_the_default(given: str, shown: str) -> None:
    assert short_name(given) == shown
