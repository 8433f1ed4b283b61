"""Instances for property tests."""

from __future__ import annotations

from hypothesis import strategies as st
from slotreeve_protocol.instance import Health, Instance

LINES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)
SHORT = LINES.filter(bool)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INSTANCES = st.builds(
    Instance,
    address=st.ip_addresses().map(str) | st.from_regex(r"[A-Za-z]{1,9}(\.[a-z]{1,9})?\.?", fullmatch=True),
    port=st.integers(0, 65_535),
    scheme=st.sampled_from(["", "http", "grpc+tls", "dubbo"]),
    weight=st.integers(0, 65_535),
    zone=LINES,
    tags=st.lists(SHORT, max_size=4, unique=True).map(tuple),
    metadata=st.dictionaries(SHORT, TEXTS, max_size=4),
    health=st.sampled_from(Health),
    health_note=TEXTS,
    enabled=st.booleans(),
    id=LINES,
)
