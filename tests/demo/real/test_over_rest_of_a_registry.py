"""What the demonstration reads over REST from a registry that runs."""

from __future__ import annotations

import asyncio

import pytest
import slotreeve_client
from slotreeve_demo.ledger import compare_lookups, expected_views
from slotreeve_demo.over_rest import read_over_rest
from slotreeve_harness.processes import DevServer

from tests.demo.test_over_rest import NAMES


@pytest.mark.processes
def test_what_was_published_is_read_over_rest_and_a_difference_is_found() -> None:
    async def main(dev: DevServer) -> None:
        async with slotreeve_client.connect(dev.session_address) as client:
            published = [client.publish(name, f"10.0.0.1:80 {name}") for name in NAMES]
            await client.flush()
            expected = expected_views(published)
            shown = await asyncio.to_thread(read_over_rest, dev.gateway_address, expected)
            found = compare_lookups(expected, shown)
            assert (found.is_equal, found.compared) == (True, 2)
            changed, more = (publication.data_info_id for publication in published)
            expected[changed] = dict.fromkeys(expected[changed], (b"other",))
            expected[more]["another"] = (b"",)
            found = compare_lookups(expected, shown)
            assert (found.stale, found.missing) == ([(changed, published[0].register_id)], [(more, "another")])

    with DevServer() as dev:
        asyncio.run(main(dev))
