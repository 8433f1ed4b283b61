"""What faces share that speak REST: operations by path and method, typed queries and bodies, errors as problem+json,
and the OpenAPI description of all that."""

from __future__ import annotations

from slotreeve_gateway.rest.answers import json_answer, refused
from slotreeve_gateway.rest.call import Handler, RestCall
from slotreeve_gateway.rest.dispatch import Guard, RestPages
from slotreeve_gateway.rest.openapi import RestDescription
from slotreeve_gateway.rest.queries import NoQuery
from slotreeve_gateway.rest.routes import Answer, RestOperation

__all__ = [
    "Answer",
    "Guard",
    "Handler",
    "NoQuery",
    "RestCall",
    "RestDescription",
    "RestOperation",
    "RestPages",
    "json_answer",
    "refused",
]
