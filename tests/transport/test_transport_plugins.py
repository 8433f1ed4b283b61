"""The plugins as the catalogue sees them."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys

import pytest
import slotreeve_transport_memory
import slotreeve_transport_zmq
from pydantic import ValidationError
from slotreeve import Context, Offer
from slotreeve.clock import LoopClock
from slotreeve.errors import FrameTooLarge
from slotreeve.ports import Transport
from slotreeve_conformance.transport_scene import CLIENT, SERVER, RecordingHandler
from slotreeve_protocol.general_messages import Opaque

SMALLEST = 16 * 1024 * 1024
"""The smallest frame that may be configured, in bytes."""
OFFERS = [
    *slotreeve_transport_memory.slotreeve_transports(),
    *slotreeve_transport_zmq.slotreeve_transports(),
]


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: offer.name)
def test_what_an_offer_builds_is_a_transport_with_the_limits_of_its_options(offer: Offer) -> None:
    async def main() -> None:
        context = Context("test", 256, LoopClock(), random.Random(0), node="node")
        transport = offer.build(offer.options.model_validate({"max_frame_bytes": SMALLEST}), context)
        assert isinstance(transport, Transport)
        listener = await transport.listen("127.0.0.1:0", SERVER, RecordingHandler())
        connection = await transport.connect(listener.address, CLIENT, RecordingHandler(), 10.0)
        with pytest.raises(FrameTooLarge):
            connection.send(Opaque("large", bytes(SMALLEST)))
        await transport.close()

    asyncio.run(main())


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: offer.name)
def test_options_that_make_no_sense_are_refused(offer: Offer) -> None:
    for wrong in ({"queue_bytes": 0}, {"send_queue": 100}, {"max_frame_bytes": SMALLEST - 1}, {"no_such_option": 1}):
        with pytest.raises(ValidationError):
            offer.options.model_validate(wrong)


def test_importing_the_plugin_does_not_import_zeromq() -> None:
    program = "import sys, slotreeve_transport_zmq; sys.exit('zmq' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
