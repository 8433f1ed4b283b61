"""Bugs of the FLE election that the history of the meta state shows, what is done to directories, or cut links.

The election suite plants the same ones (``tests/conformance/fle_bugs.py``), and more.
"""

from __future__ import annotations

import tests.conformance.fle_disk_bugs  # noqa: F401 - adds its bugs, and those of fle_bugs
from tests.conformance.election_bugs import BUGS as ELECTION_BUGS
from tests.simulation.planting import bug

FIRST_SEEDS = {
    "writes": {
        "commit_without_majority": 2,
        "committed_before_logged": 0,
        "nothing_waits_for_the_disk": 22,
        "serves_before_its_history_is_committed": 0,
        "abandoned_writes_are_stored": 0,
        "early_conflict": 0,
        "any_version_will_do": 0,
        "leads_on_without_a_quorum": 3,
    },
    "directories": {
        "any_directory_will_do": 0,
        "knows_whom_it_met": 0,
        "replaced_directory_is_taken": 2,
        "older_epochs_will_do": 0,
    },
    "topologies": {"stands_without_links": 0, "never_joins_a_leader_alone": 0},
}
"""The first seed to try of each, by the scenario that finds it and the name of the bug."""

for _scenario, _bugs in FIRST_SEEDS.items():
    for _name, _first in _bugs.items():
        bug(ELECTION_BUGS[_name].what, _scenario, _first)(ELECTION_BUGS[_name].make)
