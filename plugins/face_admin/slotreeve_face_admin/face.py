"""REST under ``/v1/admin``: what operators read and order."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve.ports import Context
from slotreeve_gateway import Gateway
from slotreeve_gateway.acts.kinds import LONGEST_NAME
from slotreeve_gateway.rest import RestDescription, RestPages
from slotreeve_gateway.rest.openapi import SERVICE_PLACE
from slotreeve_protocol.instance import MAX_ID_LENGTH
from slotreeve_protocol.people_messages import MAX_APPLICATION_LENGTH
from slotreeve_protocol.provided import MAX_KEY_LENGTH

from slotreeve_face_admin import AdminOptions
from slotreeve_face_admin.acts import PREFIX
from slotreeve_face_admin.dumping import Dumping
from slotreeve_face_admin.guard import BrowserGuard
from slotreeve_face_admin.operating import Operating
from slotreeve_face_admin.past import PastReads
from slotreeve_face_admin.reads import AdminReads
from slotreeve_face_admin.settings import SettingReads

COUNTERS = ("admin_answers", "admin_refusals")
_NAME: dict[str, object] = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
ABOUT = RestDescription(
    f"{PREFIX}/openapi.json",
    "What operators of a slotreeve registry read and order. Any gateway of the registry may be asked at any time.",
    {
        "service": SERVICE_PLACE,
        "key": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "description": "The key."},
        "application": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_APPLICATION_LENGTH,
            "description": "Its name.",
        },
        "setting": _NAME | {"description": "The key of a setting in the configuration."},
        "instance": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_ID_LENGTH,
            "description": "The id of an instance.",
        },
        "node": _NAME | {"description": "The name of a data or session server."},
        "client": _NAME | {"description": "The id of a client, or its IP address."},
    },
)


class AdminFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: AdminOptions, context: Context) -> None:
        self._gateway = gateway = Gateway.of(context)
        self._counters = dict.fromkeys(COUNTERS, 0)
        operations = [
            *AdminReads(gateway.servers).operations(),
            *PastReads(gateway.servers, gateway.clock).operations(),
            *Dumping(gateway.registry).operations(),
            *Operating(gateway).operations(),
            *SettingReads(gateway).operations(),
        ]
        guard = BrowserGuard(options.hosts)
        self._pages = RestPages(gateway.access, operations, ABOUT, self._counters, "admin", guard)

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add([PREFIX], self._pages)

    async def stop(self) -> None:
        """See Face."""

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return self._counters
