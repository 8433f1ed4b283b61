"""The ways in which a run keeps leases: by our client, and over HTTP through gateways."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, Protocol

from slotreeve.errors import ClientError
from slotreeve_client import Client

REQUEST_SECONDS = 1.5
"""Less than the time to live, so that one request that is lost ends no lease."""


class ChaosKeeper(Protocol):
    """Registers and renews leases. The payload of a lease is its sequence number."""

    async def register(self, service: str, lease_id: str, sequence: int, ttl_seconds: float) -> None:
        """Register, or replace. Raises SlotreeveError: it may not have been registered."""

    async def renew(self, service: str, lease_ids: Sequence[str]) -> set[str]:
        """Renew leases; returns those that are unknown. Raises SlotreeveError: they may not have been renewed."""


class ClientKeeper:
    """Keeps leases by a client of ours."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def register(self, service: str, lease_id: str, sequence: int, ttl_seconds: float) -> None:
        """See ChaosKeeper."""
        await self._client.leases.register(service, lease_id, str(sequence), ttl_seconds=ttl_seconds)

    async def renew(self, service: str, lease_ids: Sequence[str]) -> set[str]:
        """See ChaosKeeper."""
        return await self._client.leases.renew(service, *lease_ids)


class GatewayKeeper:
    """Keeps leases by the REST face of gateways. Each request goes to any of them, as behind a load balancer.

    ``addresses`` are those of the gateways. Requests are made in threads, each on a connection of its own.
    """

    def __init__(self, addresses: Sequence[str], rng: random.Random) -> None:
        self._addresses, self._rng = addresses, rng

    async def register(self, service: str, lease_id: str, sequence: int, ttl_seconds: float) -> None:
        """See ChaosKeeper."""
        fields = {
            "address": "10.0.0.1",
            "port": 80,
            "metadata": {"sequence": str(sequence)},
            "ttl_seconds": ttl_seconds,
        }
        await self._ask("PUT", f"/v1/services/{service}/instances/{lease_id}", fields)

    async def renew(self, service: str, lease_ids: Sequence[str]) -> set[str]:
        """See ChaosKeeper."""
        answer = await self._ask("POST", "/v1/bulk/renew", {"leases": {service: list(lease_ids)}})
        if answer["unanswered"]:
            raise ClientError(answer["reason"])
        return set(answer["unknown"].get(service, ()))

    async def providers(self, address: str, service: str) -> tuple[int, dict[str, int]]:
        """What the gateway at ``address`` shows of a service: its index, and the sequence by register id.

        Raises:
            ClientError: it does not answer.
        """
        answer = await _in_thread(lambda: _fetch("GET", address, f"/v1/services/{service}/instances", None))
        shown = {one["register_id"]: int(one["metadata"]["sequence"]) for one in answer["instances"]}
        return answer["index"], shown

    async def _ask(self, method: str, path: str, body: object) -> Any:
        address = self._rng.choice(self._addresses)
        return await _in_thread(lambda: _fetch(method, address, path, json.dumps(body).encode()))


async def _in_thread(fetch: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, fetch)


def _fetch(method: str, address: str, path: str, body: bytes | None) -> Any:
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=REQUEST_SECONDS)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != HTTPStatus.OK:
            raise ClientError(f"{method} {path} at {address}: {answer.status} {text[:200]!r}")
        return json.loads(text)
    except (OSError, HTTPException, ValueError) as error:
        raise ClientError(f"{method} {path} at {address}: {error}") from None
    finally:
        connection.close()
