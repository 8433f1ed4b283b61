"""The digest of the provided configuration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve_protocol.provided import config_digest

VERSIONS = st.dictionaries(st.text("ab\0", max_size=3), st.integers(0, 1 << 40), max_size=6)


@given(VERSIONS, VERSIONS)
def test_digests_are_equal_exactly_if_keys_and_versions_are(first: dict[str, int], second: dict[str, int]) -> None:
    assert (config_digest(first) == config_digest(second)) == (first == second)


@given(VERSIONS)
def test_the_digest_does_not_depend_on_the_order_of_keys(versions: dict[str, int]) -> None:
    digest = config_digest(versions)
    assert digest == config_digest(dict(reversed(versions.items())))
    assert 0 <= digest < 1 << 64


def test_no_configuration_has_the_digest_zero() -> None:
    assert config_digest({}) == 0
