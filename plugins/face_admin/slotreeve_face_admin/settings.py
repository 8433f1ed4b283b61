"""What operators read of the settings that change while servers run."""

from __future__ import annotations

from slotreeve_client.setting_reports import SettingsReport, settings_in_force
from slotreeve_gateway import Gateway
from slotreeve_gateway.rest import Handler, RestCall, RestOperation, json_answer
from starlette.responses import Response

from slotreeve_face_admin.documents import encode
from slotreeve_face_admin.reads import read_page


class SettingReads:
    """Reads settings from all servers, and from the gateway itself."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may ask."""
        says = "The settings that may be changed while servers run, at every server and this gateway."
        return [read_page("settings", "listSettings", says, self._read, SettingsReport)]

    async def _read(self, call: RestCall) -> Response:
        own = [(self._gateway.name, self._gateway.settings_in_force.report())]
        return json_answer(encode(await settings_in_force(*self._gateway.servers.asked, own)))
