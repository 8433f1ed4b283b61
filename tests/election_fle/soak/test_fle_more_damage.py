"""Many more stories of damaged directories and cut links: ``SLOTREEVE_STORIES=2000 pytest`` on this file."""

from __future__ import annotations

import os

from hypothesis import given, settings

from tests.election_fle.test_fle_damage import Story, stories, tell

STORIES = int(os.environ.get("SLOTREEVE_STORIES", "50"))


@settings(max_examples=STORIES, print_blob=True)
@given(stories())
def test_no_acknowledged_write_is_lost_and_a_centre_is_led(story: Story) -> None:
    tell(story)
