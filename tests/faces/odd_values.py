"""Values that programs in languages without types write where a text is expected, and hostile ones."""

from __future__ import annotations

from hypothesis import strategies as st

odd_texts = st.text(max_size=20) | st.sampled_from(
    ["", " ", "\x00", "\n", "\x7f", "\x85", "\ud800", "\udfff", "\ufeff", "\u202e", "x" * 2_000, "true", "null"]
)
"""Texts with control characters, lone surrogates, a mark of byte order, from right to left, too long."""
odd_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**53, 2**64, -(2**63), 1e308, -0.0, 10**30])
    | st.floats(allow_nan=False, allow_infinity=False)
    | odd_texts
)
odd_values: st.SearchStrategy[object] = st.recursive(
    odd_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_texts, inner, max_size=3),
    max_leaves=6,
)
"""Any JSON."""
odd_metadata = st.dictionaries(odd_texts.filter(bool), odd_values, max_size=5)
