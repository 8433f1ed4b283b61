"""A watched key of the provided configuration."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import ClientClosed, RegistrationError
from slotreeve_client.configuration import ConfigWatch, ConfigWatches
from slotreeve_protocol.meta_messages import NOT_SHOWN, ConfigEntry


def watch(seen: list[tuple[bytes | None, int]]) -> ConfigWatch:
    return ConfigWatch("k", lambda w: seen.append((w.value, w.version)), lambda _watch: None)


def test_versions_only_rise_and_a_repeated_entry_is_no_change() -> None:
    seen: list[tuple[bytes | None, int]] = []
    made = watch(seen)
    for value, version in ((b"2", 2), (b"1", 1), (b"2", 2), (None, 3)):
        if made.apply(ConfigEntry("k", value, version)):
            made.call()
    assert seen == [(b"2", 2), (None, 3)]
    assert (made.value, made.version) == (None, 3)


def test_that_there_is_no_value_is_reported_once() -> None:
    seen: list[tuple[bytes | None, int]] = []
    made = watch(seen)
    assert [made.apply(ConfigEntry("k", None, 0)) for _ in range(2)] == [True, False]
    made.call()
    assert seen == [(None, 0)]


def test_ready_waits_for_the_first_entry_and_fails_after_the_end() -> None:
    async def scenario() -> None:
        known, ended = watch([]), watch([])
        waits = [asyncio.create_task(known.ready()), asyncio.create_task(ended.ready())]
        await asyncio.sleep(0)
        assert not any(wait.done() for wait in waits)
        known.apply(ConfigEntry("k", b"v", 1))
        ended.close()
        await waits[0]
        with pytest.raises(ClientClosed, match="the watch of k has ended"):
            await waits[1]

    asyncio.run(scenario())


def test_a_key_that_is_not_shown_is_an_error_and_not_a_key_without_a_value_until_it_is_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        seen: list[tuple[bytes | None, int]] = []
        made, watches = watch(seen), ConfigWatches()
        watches.add(made)
        waiting = asyncio.create_task(made.ready())
        await asyncio.sleep(0)
        assert watches.apply([ConfigEntry("k", b"it is too much", NOT_SHOWN)]) == []
        for wait in (waiting, made.ready()):
            with pytest.raises(RegistrationError, match="k is not shown to this client: it is too much"):
                await wait
        assert "the watch of k is refused: it is too much" in caplog.text
        for entry in (ConfigEntry("k", None, 0), ConfigEntry("k", b"v", 5)):
            assert watches.apply([entry]) == [made]
            await made.ready()
        assert watches.apply([ConfigEntry("k", b"another limit", NOT_SHOWN)]) == []
        assert (made.value, made.has_ended, dict(*watches.versions_in_parts())) == (b"v", False, {"k": 0})
        assert watches.apply([ConfigEntry("k", b"v", 5)]) == []
        assert (made.refused, dict(*watches.versions_in_parts())) == (None, {"k": 5})

    asyncio.run(scenario())


def test_no_callback_follows_the_end_and_the_client_is_called_once() -> None:
    seen: list[tuple[bytes | None, int]] = []
    ended: list[ConfigWatch] = []
    made = ConfigWatch("k", lambda w: seen.append((w.value, w.version)), ended.append)
    made.unwatch()
    made.unwatch()
    made.apply(ConfigEntry("k", b"v", 1))
    assert (seen, ended) == ([], [made])


def test_a_call_passes_on_what_the_callback_raises() -> None:
    def broken(_watch: ConfigWatch) -> None:
        raise ValueError("a defect of the user's")

    made = ConfigWatch("k", broken, lambda _watch: None)
    assert made.apply(ConfigEntry("k", b"v", 1))
    with pytest.raises(ValueError, match="a defect"):
        made.call()
    assert (made.value, made.label) == (b"v", "the watch of k")


def test_all_watches_of_a_key_get_its_entries_and_the_last_one_is_known() -> None:
    watches = ConfigWatches()
    first, second, other = (ConfigWatch(key, None, lambda _watch: None) for key in ("k", "k", "other"))
    for made in (first, second, other):
        watches.add(made)
    assert watches.apply([ConfigEntry("k", b"v", 3), ConfigEntry("nobody's", b"w", 1)]) == [first, second]
    assert watches.apply([ConfigEntry("k", b"v", 3)]) == []
    assert dict(*watches.versions_in_parts()) == {"k": 3, "other": 0}
    assert [watches.remove(made) for made in (first, first, second)] == [False, False, True]
    assert dict(*watches.versions_in_parts()) == {"other": 0}
