"""Calls a service by its name, with httpx: ``python greeting_caller.py``."""

from __future__ import annotations

import asyncio
import os

import httpx
import slotreeve_client
from slotreeve_client import Client
from slotreeve_client.httpx_transport import SlotreeveTransport

SERVICE = "com.example.Greeter"


def http_client(client: Client) -> httpx.AsyncClient:
    """A client of httpx for which the names of services are hosts."""
    return httpx.AsyncClient(transport=SlotreeveTransport(client, SERVICE))


async def greeting(http: httpx.AsyncClient) -> str:
    """What an instance of the service says. Raises httpx.HTTPError."""
    answer = await http.get(f"http://{SERVICE}/hello")
    answer.raise_for_status()
    return answer.text


async def main() -> None:
    """Say what they say."""
    session = os.environ.get("SLOTREEVE_SESSION", "127.0.0.1:7730")
    async with slotreeve_client.connect(*session.replace(",", " ").split()) as client, http_client(client) as http:
        for _ in range(10):
            print(await greeting(http))


if __name__ == "__main__":
    asyncio.run(main())
