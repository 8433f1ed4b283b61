"""REST under ``/v1``: services and leases."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve.ports import Context
from slotreeve_gateway import Gateway
from slotreeve_gateway.rest import Handler, RestDescription, RestOperation, RestPages
from slotreeve_gateway.rest.openapi import SERVICE_PLACE
from slotreeve_protocol.instance import MAX_ID_LENGTH

from slotreeve_face_rest import RestOptions
from slotreeve_face_rest.bulk import Bulk
from slotreeve_face_rest.instances import Instances
from slotreeve_face_rest.overriding import Overriding
from slotreeve_face_rest.services import ServicePages

COUNTERS = ("rest_answers", "rest_refusals", "rest_waiting", "rest_events", "rest_slow_readers")
ABOUT = RestDescription(
    "/v1/openapi.json",
    "Services and leases of a slotreeve registry. Any gateway of the registry may be asked at any time.",
    {
        "service": SERVICE_PLACE,
        "id": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_ID_LENGTH,
            "description": "The id of the instance.",
        },
    },
)
PREFIXES = ("/v1/services", "/v1/bulk", ABOUT.path)


class RestFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: RestOptions, context: Context) -> None:
        self._gateway = gateway = Gateway.of(context)
        self._counters = dict.fromkeys(COUNTERS, 0)
        operations: list[RestOperation[Handler]] = [
            *ServicePages(gateway, options, self._counters).operations(),
            *Instances(gateway).operations(),
            *Overriding(gateway).operations(),
            *Bulk(gateway).operations(),
        ]
        self._pages = RestPages(gateway.access, operations, ABOUT, self._counters, "rest")

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add(PREFIXES, self._pages)

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return self._counters
