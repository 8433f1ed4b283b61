"""A caller of leases that speaks HTTP with gateways: each request may go to another one."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from slotreeve.errors import ClientError

from slotreeve_simulator.gateway_watch import GatewayWatch
from slotreeve_simulator.http_dialects import HttpCall, HttpDialect
from slotreeve_simulator.simulated_gateway import GatewayAnswer
from slotreeve_simulator.simulated_gateways import SimulatedGateways

WAIT_SECONDS = 8.0
PAUSE_SECONDS = 0.2
"""Between two readings where the face cannot wait, and after one that failed."""


class LeasesByGateway:
    """Implements :class:`slotreeve_simulator.lease_callers.LeaseUse` for leases of one service.

    Args:
        writes: the language in which it registers.
        reads: the language in which it reads; another one, so that what one face writes another one shows.
    """

    def __init__(
        self, gateways: SimulatedGateways, service: str, writes: HttpDialect, reads: HttpDialect, watch: GatewayWatch
    ) -> None:
        self._gateways, self._service, self._writes, self._reads = gateways, service, writes, reads
        self._watch = watch
        self.seen: set[str] = set()

    async def register(self, lease_id: str, ttl: float) -> None:
        """See LeaseUse."""
        await self._ask(self._writes.register(self._service, lease_id, ttl))

    async def renew(self, lease_ids: list[str]) -> tuple[set[str], set[str]]:
        """See LeaseUse."""
        calls = [self._ask(self._writes.renew(self._service, lease_id)) for lease_id in lease_ids]
        answers = dict(zip(lease_ids, await asyncio.gather(*calls, return_exceptions=True), strict=True))
        unanswered = {lease_id for lease_id, answer in answers.items() if isinstance(answer, ClientError)}
        unexpected = [answer for answer in answers.values() if isinstance(answer, BaseException)]
        for error in unexpected:
            if not isinstance(error, ClientError):
                raise error
        unknown = {
            lease_id
            for lease_id, answer in answers.items()
            if isinstance(answer, GatewayAnswer) and answer.status == HTTPStatus.NOT_FOUND
        }
        return unknown, unanswered

    async def end(self, lease_id: str) -> None:
        """See LeaseUse."""
        await self._ask(self._writes.end(self._service, lease_id))

    async def follow(self) -> None:
        """See LeaseUse."""
        index = 0
        while True:
            try:
                answer = await self._ask(self._reads.read(self._service, index, WAIT_SECONDS))
            except ClientError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            present, found = self._reads.shown(answer), self._reads.index(answer)
            if found > index:
                self._watch.seen(self._service, self._reads, found, self.seen, present)
            if found >= index:
                self.seen = present
            index = found
            if not found:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, call: HttpCall) -> GatewayAnswer:
        """The answer; a status that says that the registry did not do it is an error."""
        answer = await self._gateways.ask(call)
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.NOT_FOUND:
            self._watch.refused(call, answer)
            raise ClientError(f"{call.method} {call.path}: {answer.status}")
        return answer
