"""What is told of live settings where servers and the operator's table do not agree."""

from __future__ import annotations

from slotreeve_client.setting_reports import setting_change, settings_report, undo_command
from slotreeve_protocol.live_settings import SETTINGS_KEY, LiveSettings
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.people_messages import SettingsAre

GRACE = "data.session_grace_seconds"


def test_a_table_that_cannot_be_read_is_told_and_names_no_setting() -> None:
    report = settings_report(ConfigEntry(SETTINGS_KEY, b"\xff", 3), [("data-1", SettingsAre(3, []))])
    assert (report.version, report.settings, len(report.ignored)) == (3, [], 1)


def test_a_setting_that_no_server_has_told_is_told_as_the_table_has_it() -> None:
    table = LiveSettings().changed(GRACE, 4.0)
    report = settings_report(ConfigEntry(SETTINGS_KEY, table.encode(), 1), [], {"data-1": "it is dead"})
    assert [(row.name, row.value, row.live, row.servers) for row in report.settings] == [(GRACE, 4.0, True, [])]
    assert report.silent == {"data-1": "it is dead"}
    assert setting_change(report, table, GRACE, None) == [
        f"No server that was asked has {GRACE} now; data processes that do follow it."
    ]
    assert setting_change(report, table, GRACE, 4.0) == [f"Nothing changes: {GRACE} is set to 4.0 already."]


def test_a_server_that_follows_an_older_table_is_named() -> None:
    report = settings_report(ConfigEntry(SETTINGS_KEY, None, 2), [("data-1", SettingsAre(1, [], {GRACE: "too long"}))])
    assert report.ignored == ["data-1: too long", "data-1 follows version 1 of the changes as yet, not 2"]


def test_the_command_that_undoes_a_change_sets_what_was_there() -> None:
    table = LiveSettings().changed(GRACE, 4.0)
    assert undo_command(LiveSettings(), GRACE) == f"slotreeve settings unset {GRACE}"
    assert undo_command(table, GRACE) == f"slotreeve settings set {GRACE} 4.0"
