"""Hypothesis strategies for what programs pass by mistake: texts that no message can carry, values of other types."""

from __future__ import annotations

from hypothesis import strategies as st

ODD_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=8),
    st.sampled_from(
        ["caf\udce9", "\ud800", "a#@", "#@", "", " ", "a\x00b", "é" * 300, "\U0001f600" * 2_048, "z" * 600]
    ),
    st.text(st.sampled_from("ab#@"), max_size=6),
    st.sampled_from(["a", "b"]),
)
"""Texts, lone surrogates and parts of delimiters among them."""
NO_TEXT = st.one_of(st.none(), st.integers(), st.binary(max_size=3), st.floats(), st.builds(object))
"""What is no text."""
ODD_VALUE = st.one_of(ODD_TEXT, ODD_TEXT, ODD_TEXT, NO_TEXT)
"""Mostly texts."""
