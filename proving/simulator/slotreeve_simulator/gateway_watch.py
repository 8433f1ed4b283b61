"""Checks of what gateways answer (I16, I19): about leases, and about the index of a service."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from slotreeve.errors import ClientError
from slotreeve.model.data_info import DataInfo

from slotreeve_simulator.http_dialects import HTTP_DIALECTS, HttpCall, HttpDialect
from slotreeve_simulator.lease_watch import LeaseWatch
from slotreeve_simulator.simulated_gateway import GatewayAnswer
from slotreeve_simulator.simulated_gateways import IDLE_SECONDS, SWEEP_SECONDS, SimulatedGateways
from slotreeve_simulator.verdict import RunVerdict

CALM_SECONDS = 5.0
"""In a calm cluster there is a moment within so long at which all gateways show what the leader of the slot has."""
NEWS_SECONDS = 2.0
"""In a calm cluster, whoever waits at a gateway has a change so long after it was acknowledged."""
QUIET_SECONDS = IDLE_SECONDS + SWEEP_SECONDS
PROBED, PROBE = "probed", "probe"
PROBE_TTL = 60.0


class GatewayWatch:
    """Everything that callers of ``gateways`` see in one run."""

    def __init__(self, gateways: SimulatedGateways, leases: LeaseWatch, verdict: RunVerdict) -> None:
        self.gateways, self._leases, self._verdict = gateways, leases, verdict
        self._states: dict[tuple[str, HttpDialect, int], frozenset[str]] = {}
        self._newest: dict[HttpDialect, int] = {}

    def refused(self, call: HttpCall, answer: GatewayAnswer) -> None:
        """A good request was not carried out: that may be because of the registry, not because of the request."""
        if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._verdict.violate("I19", f"{call.method} {call.path} is refused: {answer.status} {answer.body!r}")

    def seen(self, service: str, face: HttpDialect, index: int, before: set[str], present: set[str]) -> None:
        """An answer of a face, with a greater index than the one before, shows these leases; that one showed others.
        Each face may count more than the service itself in its index."""
        self._leases.seen(DataInfo.parse(service).id, face.version(index), before, present)
        state = self._states.setdefault((service, face, index), frozenset(present))
        if state != present:
            different = ", ".join(sorted(state ^ present))
            self._verdict.violate("I19", f"index {index} of {service} is given to two states: {different}")

    # --- in a calm cluster -------------------------------------------------------------------------------------------

    async def problem(self, services: list[str]) -> str | None:
        """What gateways show that is not so; None if all is right."""
        if (absent := self.gateways.problem()) is not None:
            return absent
        deadline = asyncio.get_running_loop().time() + CALM_SECONDS
        while (difference := await self._difference(services)) is not None:
            if asyncio.get_running_loop().time() > deadline:
                return difference
        return await self._missed()

    async def _difference(self, services: list[str]) -> str | None:
        for service in services:
            for name in sorted(self.gateways.running):
                for face, dialect in HTTP_DIALECTS.items():
                    try:
                        shown = dialect.shown(await self.gateways.ask(dialect.read(service, 0, 0), name))
                    except ClientError as error:
                        return str(error)
                    held = self._leases.held(DataInfo.parse(service).id)
                    if shown != held:
                        return f"{name} shows {sorted(shown)} of {service} by {face}; its leader has {sorted(held)}"
        return None

    async def _missed(self) -> str | None:
        """Callers wait at each gateway for a change after the greatest index that any gateway has given: they must
        have it. First a lease comes, then it ends. Before, they wait for longer than a gateway watches a service that
        nobody asks for."""
        writes = HTTP_DIALECTS["rest"]
        waits = {face: dialect for face, dialect in HTTP_DIALECTS.items() if face != "eureka"}
        for wanted, change in (
            ({PROBE}, writes.register(PROBED, PROBE, PROBE_TTL)),
            (set[str](), writes.end(PROBED, PROBE)),
        ):
            for name in sorted(self.gateways.running):
                for dialect in waits.values():
                    answer = await self.gateways.ask(dialect.read(PROBED, 0, 0), name)
                    self._newest[dialect] = max(self._newest.get(dialect, 0), dialect.index(answer))
            waiting = {
                f"{name} by {face}": asyncio.create_task(self._changed(dialect, name, wanted))
                for name in sorted(self.gateways.running)
                for face, dialect in waits.items()
            }
            await asyncio.sleep(QUIET_SECONDS)
            answer = await self.gateways.ask(change)
            if answer.status >= HTTPStatus.BAD_REQUEST:
                return f"{change.method} {change.path} is answered with {answer.status} {answer.body!r}"
            await asyncio.wait(waiting.values())
            for where, task in waiting.items():
                if (problem := task.result()) is not None:
                    return f"at {where}: {problem}"
        return None

    async def _changed(self, dialect: HttpDialect, name: str, wanted: set[str]) -> str | None:
        """Wait at a gateway. Why the answer is not that the service has these leases; None if it is."""
        after = self._newest[dialect]
        answer = await self.gateways.ask(dialect.read(PROBED, after, QUIET_SECONDS + NEWS_SECONDS), name)
        if answer.status != HTTPStatus.OK:
            return f"whoever waits for {sorted(wanted)} after {after} is answered with {answer.status} {answer.body!r}"
        shown, index = dialect.shown(answer), dialect.index(answer)
        if shown != wanted or index <= after:
            return f"whoever waits for {sorted(wanted)} after {after} gets {sorted(shown)} at {index}"
        self._newest[dialect] = max(self._newest[dialect], index)
        return None
