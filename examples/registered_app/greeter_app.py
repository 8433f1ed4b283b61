"""A web application that is registered while it serves: ``uvicorn --factory greeter_app:main --port 8080``."""

from __future__ import annotations

import os

import slotreeve_client
from slotreeve_client import Instance
from slotreeve_client.asgi_registration import AsgiRegistration
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

SERVICE = "com.example.Greeter"


def make_app(registration: AsgiRegistration) -> Starlette:
    """The application. With FastAPI it is the same argument: ``FastAPI(lifespan=registration.lifespan)``."""

    async def hello(request: Request) -> Response:
        return PlainTextResponse(f"hello from {registration.instance.endpoint}")

    async def readyz(request: Request) -> Response:
        """For an orchestrator: whether callers find this instance."""
        why_not = registration.why_not_ready
        return PlainTextResponse(why_not or "ready", 503 if why_not else 200)

    return Starlette(routes=[Route("/hello", hello), Route("/readyz", readyz)], lifespan=registration.lifespan)


def main() -> Starlette:
    """For uvicorn: the registry is at the addresses SLOTREEVE_SESSION, and this application at ADDRESS and PORT."""
    instance = Instance(os.environ.get("ADDRESS", "127.0.0.1"), int(os.environ.get("PORT", "8080")), scheme="http")
    sessions = os.environ.get("SLOTREEVE_SESSION", "127.0.0.1:7730").replace(",", " ").split()
    return make_app(AsgiRegistration(SERVICE, instance, lambda: slotreeve_client.connect(*sessions)))
