"""Which peers are refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotFacts
from slotreeve.ports import Hello
from slotreeve.ports.transport import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION
from slotreeve_protocol.hello import refusal

FACTS = SlotFacts(16, 2, "crc32c")
OURS = Hello("prod", "data-1", Role.DATA, "p1", "a:1", 2, 4, FACTS)


@pytest.mark.parametrize(
    "theirs",
    [
        replace(OURS, node="data-2"),
        replace(OURS, facts=None),
        replace(OURS, oldest_version=1, newest_version=2),
        replace(OURS, oldest_version=4, newest_version=9),
    ],
)
def test_a_peer_of_the_cluster_with_a_common_version_and_equal_facts_is_accepted(theirs: Hello) -> None:
    assert refusal(OURS, theirs) is None
    assert refusal(theirs, OURS) is None


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (replace(OURS, cluster="test"), "this is cluster 'prod', not 'test' ([cluster] name)"),
        (
            replace(OURS, oldest_version=5, newest_version=6),
            "protocol versions 5..6 are not among 2..4, which data-1 speaks",
        ),
        (
            replace(OURS, oldest_version=1, newest_version=1),
            "protocol versions 1..1 are not among 2..4, which data-1 speaks",
        ),
        (
            replace(OURS, facts=SlotFacts(32, 2, "md5")),
            "slot facts differ from the cluster's: slots is 16 here and 32 there, function is 'crc32c' here and 'md5' "
            "there ([cluster] slots, replicas; [slot_function] use)",
        ),
    ],
)
def test_any_other_peer_is_refused_with_the_reason_and_the_setting(theirs: Hello, reason: str) -> None:
    assert refusal(OURS, theirs) == reason
    assert refusal(theirs, OURS) is not None


def test_this_build_understands_its_own_version() -> None:
    assert OLDEST_PROTOCOL_VERSION <= PROTOCOL_VERSION
