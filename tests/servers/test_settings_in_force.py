"""The settings of one process, with those that the operator changes above them."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve_protocol.live_settings import LIVE_SETTINGS, LiveSetting, LiveSettings
from slotreeve_protocol.people_messages import SettingIs
from slotreeve_servers.node.settings_in_force import SettingsInForce
from slotreeve_servers.settings import Settings

CONFIGURED = Settings.model_validate({"data": {"brake_few": 7}, "log": {"level": "error"}})
ORIGINS = {"data.brake_few": "cluster.toml", "log.level": "environment SLOTREEVE__LOG__LEVEL"}


def table(**values: object) -> bytes | None:
    return LiveSettings({name.replace("__", "."): value for name, value in values.items()}).encode()


def of_data() -> tuple[SettingsInForce, list[Settings]]:
    seen: list[Settings] = []
    settings = SettingsInForce(CONFIGURED, ORIGINS, Role.DATA)
    settings.follow(seen.append)
    return settings, seen


@pytest.mark.parametrize("setting", LIVE_SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_live_setting_is_one_of_the_configuration_which_allows_all_of_its_bounds(setting: LiveSetting) -> None:
    section, _, key = setting.name.partition(".")
    model = type(getattr(Settings(), section))
    for value in setting.words or (setting.least, setting.most):
        assert getattr(model.model_validate({key: value}), key) == value
    default = getattr(model(), key)
    assert setting.of(default) == default
    assert type(setting.of(default)) is type(default)
    assert section in {str(role) for role in (Role.META, Role.DATA, Role.SESSION, Role.GATEWAY)} | {"log"}


def test_the_operators_table_outranks_the_configuration_until_it_is_removed_there() -> None:
    settings, seen = of_data()
    settings.take(table(data__brake_few=100, log__level="debug", session__linger_seconds=9.0), 1)
    assert (settings.settings.data.brake_few, settings.settings.log.level) == (100, "debug")
    assert settings.settings.session == CONFIGURED.session
    report = settings.report()
    assert SettingIs("data.brake_few", 100, 7, "cluster.toml", True) in report.settings
    assert SettingIs("data.brake_share", 0.2, 0.2, "default", False) in report.settings
    assert (report.version, report.ignored) == (1, {})
    settings.take(table(log__level="debug"), 2)
    assert settings.settings.data == CONFIGURED.data
    settings.take(None, 3)
    assert settings.settings == CONFIGURED
    assert len(seen) == 3


def test_what_concerns_another_role_or_changes_nothing_is_told_to_nobody() -> None:
    settings, seen = of_data()
    settings.take(table(session__linger_seconds=9.0), 1)
    settings.take(table(session__linger_seconds=10.0), 2)
    settings.take(table(session__linger_seconds=10.0), 2)
    assert seen == []
    assert settings.version == 2


def test_something_odd_is_ignored_and_logged_once_and_the_rest_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    settings, _ = of_data()
    odd = {"data__brake_share": 17, "data__colour": {"a": 1}, "data__brake_few": 3}
    settings.take(table(**odd), 1)
    assert settings.settings.data.brake_few == 3
    assert settings.settings.data.brake_share == 0.2
    assert sorted(settings.report().ignored) == ["data.brake_share", "data.colour"]
    settings.take(table(**odd, log__level="info"), 2)
    ignored = [record.getMessage() for record in caplog.records if "ignores it" in record.getMessage()]
    assert len(ignored) == 2
    assert any("data.brake_share is 17; expected 0 to 1" in line for line in ignored)
    settings.take(table(data__brake_share=0.5), 3)
    assert settings.report().ignored == {}


def test_a_table_that_cannot_be_read_leaves_everything_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    settings, _ = of_data()
    settings.take(table(data__brake_few=3), 1)
    with caplog.at_level(logging.ERROR):
        settings.take(b"[]", 2)
        settings.take(b"[]", 2)
    assert settings.settings.data.brake_few == 3
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["data.brake_few", "data.brake_share", "log.level", "data.new"]),
            st.sampled_from([0, 1, 0.5, "debug", "loud", None, True]),
        ),
        max_size=6,
    )
)
def test_what_is_in_force_follows_from_the_newest_table_alone(tables: list[dict[str, object]]) -> None:
    settings, seen = of_data()
    for version, values in enumerate(tables, 1):
        settings.take(LiveSettings(values).encode(), version)
    fresh, _ = of_data()
    if tables:
        fresh.take(LiveSettings(tables[-1]).encode(), len(tables))
    assert settings.settings == fresh.settings == (seen[-1] if seen else CONFIGURED)
    assert settings.report() == fresh.report()
