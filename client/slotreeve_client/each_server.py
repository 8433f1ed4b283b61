"""One question to several servers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from slotreeve.errors import SlotreeveError
from slotreeve.model.nodes import Node

T = TypeVar("T")


async def ask_each(
    nodes: Sequence[Node], question: Callable[[Node], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, str]]:
    """The answers by the names of the servers, and why others gave none. Raises what is no error of ours."""
    found: dict[str, T] = {}
    silent: dict[str, str] = {}
    answers = await asyncio.gather(*map(question, nodes), return_exceptions=True)
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, SlotreeveError):
            silent[node.name] = str(answer).rpartition(f"{node.address}: ")[2]
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[node.name] = answer
    return found, silent
