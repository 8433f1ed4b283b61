"""A command that watches ends where nothing of what it watches is shown to it."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import RegistrationError
from slotreeve_cli.publish import refused_all


async def shown() -> None:
    await asyncio.sleep(0)


async def refused(why: str) -> None:
    raise RegistrationError(why)


@pytest.mark.parametrize(("shows", "expected"), [(False, "the first"), (True, None)])
def test_it_ends_with_the_first_reason_where_all_is_refused_and_goes_on_where_something_is_shown(
    shows: bool, expected: str | None
) -> None:
    async def scenario() -> None:
        stopping = asyncio.Event()
        awaited = [refused("the first"), refused("the second"), *([shown()] if shows else [])]
        error = await refused_all(awaited, stopping)
        assert (str(error) if error is not None else None) == expected
        assert stopping.is_set() is (expected is not None)

    asyncio.run(scenario())
