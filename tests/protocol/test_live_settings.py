"""The operator's live settings: bounds, changes, what others have written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_protocol.live_settings import (
    LIVE_SETTINGS,
    LiveSettings,
    Value,
    check_settings_change,
    live_setting,
    names_of,
)

NAMES = st.sampled_from(sorted(LIVE_SETTINGS))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
TABLES = st.dictionaries(NAMES | st.text(max_size=8), JSON, max_size=5).map(LiveSettings)


def values_of(name: str) -> st.SearchStrategy[Value]:
    setting = LIVE_SETTINGS[name]
    if setting.words:
        return st.sampled_from(setting.words)
    if isinstance(setting.least, int):
        return st.integers(setting.least, int(setting.most))
    return st.floats(setting.least, setting.most)


@given(st.data())
def test_a_value_within_the_bounds_is_read_back_as_it_was_set_also_from_its_text(data: st.DataObject) -> None:
    name = data.draw(NAMES)
    value = data.draw(values_of(name))
    table = LiveSettings().changed(name, value)
    assert LiveSettings.decode(table.encode()).good() == {name: value}
    assert live_setting(name).parse(str(value)) == value
    assert table.changed(name, None).encode() is None


@given(TABLES, st.data())
def test_a_change_touches_no_other_setting_whatever_else_is_in_the_table(
    table: LiveSettings, data: st.DataObject
) -> None:
    name = data.draw(NAMES)
    others = {other: value for other, value in table.values.items() if other != name}
    changed = table.changed(name, data.draw(values_of(name)))
    assert {other: value for other, value in changed.values.items() if other != name} == others
    assert changed.changed(name, None).values == others
    check_settings_change(table.encode(), changed.encode())


@given(TABLES)
def test_each_value_of_a_table_is_either_good_or_ignored_with_a_reason(table: LiveSettings) -> None:
    read = LiveSettings.decode(table.encode())
    assert read == table
    assert {*read.good(), *read.faults()} == {*table.values}
    assert not {*read.good()} & {*read.faults()}
    for name, value in read.good().items():
        assert live_setting(name).of(value) == value


@given(TABLES, TABLES)
def test_a_write_is_refused_exactly_where_it_brings_something_that_is_not_good(
    before: LiveSettings, after: LiveSettings
) -> None:
    brings = {name for name in after.faults() if repr(before.values.get(name, ...)) != repr(after.values[name])}
    if brings:
        with pytest.raises(ModelError):
            check_settings_change(before.encode(), after.encode())
    else:
        check_settings_change(before.encode(), after.encode())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("session.push_window_seconds", -0.1, "is -0.1; expected 0 to 60"),
        ("session.push_window_seconds", math.nan, "is nan; expected 0 to 60"),
        ("session.push_window_seconds", True, "is True; expected 0 to 60"),
        ("session.push_window_seconds", "much", "is 'much'; expected 0 to 60"),
        ("meta.protect_below", 2.5, "is 2.5; expected a whole number from 0 to 1000"),
        ("meta.protect_below", 10**400, "expected a whole number from 0 to 1000"),
        ("session.max_pending_writes", 999, "expected a whole number from 1000 to 10000000"),
        ("log.level", "loud", "is 'loud'; expected debug, info, warning, error"),
        ("log.level", ["debug"], "is ['debug']; expected debug, info"),
        ("log.level", "x" * 1000, "...; expected debug, info"),
    ],
)
def test_a_value_out_of_its_bounds_is_refused_with_the_bounds(name: str, value: object, said: str) -> None:
    with pytest.raises(ModelError) as refused:
        live_setting(name).of(value)
    assert name in str(refused.value)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("name", "text"), [("meta.protect_below", "2.5"), ("data.brake_share", "a lot"), ("log.level", "")]
)
def test_a_text_that_stands_for_no_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(ModelError, match=f"the setting {name} is "):
        live_setting(name).parse(text)


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ModelError, match=r"did you mean session\.push_window_seconds"):
        LiveSettings().changed("session.push_windw_seconds", 1.0)
    with pytest.raises(ModelError, match=r"they are meta\.protect_below, "):
        LiveSettings().changed("zzz", 1.0)
    with pytest.raises(ModelError):
        LiveSettings().changed("zzz", None)


def test_what_a_newer_server_wrote_can_be_removed() -> None:
    assert LiveSettings({"data.colour": "red"}).changed("data.colour", None) == LiveSettings()


@pytest.mark.parametrize("value", [b"", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_a_value_that_is_no_table_is_refused(value: bytes) -> None:
    with pytest.raises(ModelError, match=r"'slotreeve\.settings': .*; slotreeve settings writes it"):
        LiveSettings.decode(value)


def test_a_table_that_cannot_be_read_may_be_replaced() -> None:
    check_settings_change(b"[]", None)
    check_settings_change(b"[]", LiveSettings().changed("log.level", "info").encode())


def test_names_are_those_of_the_sections() -> None:
    assert names_of(["meta", "log"]) == ["meta.protect_below", "meta.arrange_seconds", "log.level"]
