"""What command-line tools are made of."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import ClientError, PluginError
from slotreeve_client import ClientState
from slotreeve_client.tools import open_client, open_transport, run_async, tool_context


def test_a_coroutine_runs_to_its_end_and_its_error_is_raised() -> None:
    async def twice(number: int) -> int:
        await asyncio.sleep(0)
        if number < 0:
            raise ValueError(number)
        return 2 * number

    assert run_async(twice(4)) == 8
    with pytest.raises(ValueError, match="-1"):
        run_async(twice(-1))


def test_a_tool_opens_a_transport_by_the_name_of_its_plugin() -> None:
    async def open_both() -> list[str]:
        transports = [open_transport("memory"), open_transport()]
        for transport in transports:
            await transport.close()
        return [type(transport).__name__ for transport in transports]

    async def open_unknown() -> None:
        open_transport("carrier_pigeon")

    assert run_async(open_both()) == ["MemoryTransport", "ZmqTransport"]
    with pytest.raises(PluginError, match="there is no transport 'carrier_pigeon'"):
        run_async(open_unknown())


def test_a_tool_opens_a_client_with_its_options() -> None:
    async def scenario() -> None:
        with pytest.raises(ClientError, match="give at least one host:port"):
            open_client([], "c")
        async with open_client(["nowhere:1"], "c", transport="memory") as client:
            assert client.state is ClientState.CONNECTING

    run_async(scenario())


def test_a_tool_belongs_to_no_cluster() -> None:
    async def scenario() -> tuple[str, int]:
        context = tool_context(16)
        return context.cluster, context.slots

    assert run_async(scenario()) == ("", 16)
