"""The ways in which a run keeps leases: by our client, and over HTTP through gateways."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from slotreeve.errors import ClientError
from slotreeve_client import Client

REQUEST_SECONDS = 1.5
"""Less than the time to live, so that one request that is lost ends no lease."""


class LeaseKeeper(Protocol):
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
        """See LeaseKeeper."""
        await self._client.leases.register(service, lease_id, str(sequence), ttl_seconds=ttl_seconds)

    async def renew(self, service: str, lease_ids: Sequence[str]) -> set[str]:
        """See LeaseKeeper."""
        return await self._client.leases.renew(service, *lease_ids)


class GatewayKeeper:
    """Keeps leases by the REST face of gateways. Each request goes to any of them, as behind a load balancer.

    ``addresses`` are those of the gateways. Requests are made in threads, each on a connection of its own.
    """

    def __init__(self, addresses: Sequence[str], rng: random.Random) -> None:
        self._addresses, self._rng = addresses, rng

    async def register(self, service: str, lease_id: str, sequence: int, ttl_seconds: float) -> None:
        """See LeaseKeeper."""
        fields = {
            "address": "10.0.0.1",
            "port": 80,
            "metadata": {"sequence": str(sequence)},
            "ttl_seconds": ttl_seconds,
        }
        await self._ask("PUT", f"/v1/services/{service}/instances/{lease_id}", fields)

    async def renew(self, service: str, lease_ids: Sequence[str]) -> set[str]:
        """See LeaseKeeper."""
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
    request = urllib.request.Request(f"http://{address}{path}", body, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:  # noqa: S310 - as above
            return json.load(answer)
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise ClientError(f"{method} {path} at {address}: {error}") from None
