"""The pages for load balancers, supervisors and Prometheus."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST
from slotreeve.model.nodes import Node
from slotreeve_servers.node.readiness import Inspected
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slotreeve_console.metrics import exposition

OK, UNAVAILABLE = 200, 503


class HealthPages:
    """Answers about one server, on that server's event loop: a loop that stands still answers nothing.

    ``/livez``: the process can go on. ``/readyz``: it can do its work; with ``?verbose`` a line for each check.
    ``/leader``: it is the meta leader. Each answers 200 or 503. ``/metrics``: its counters for Prometheus.
    """

    def __init__(self, server: Inspected, node: Node, cluster: str) -> None:
        self._server, self._node, self._cluster = server, node, cluster

    def application(self) -> Starlette:
        """The pages as an ASGI application."""
        return Starlette(
            routes=[
                Route("/livez", self._livez),
                Route("/readyz", self._readyz),
                Route("/leader", self._leader),
                Route("/metrics", self._metrics),
            ]
        )

    async def _livez(self, request: Request) -> Response:
        failure = self._server.failure
        return _answer(not failure, failure or "ok")

    async def _readyz(self, request: Request) -> Response:
        checks = self._server.readiness()
        failed = [check for check in checks if not check.passes]
        shown = checks if "verbose" in request.query_params else failed
        lines = [f"[+] {check.name}" if check.passes else f"[-] {check.name}: {check.problem}" for check in shown]
        return _answer(not failed, "\n".join([*lines, "not ready" if failed else "ready"]))

    async def _leader(self, request: Request) -> Response:
        leads = self._server.is_leading
        return _answer(leads, f"{self._node.name} {'leads' if leads else 'does not lead'}")

    async def _metrics(self, request: Request) -> Response:
        return Response(exposition(self._server, self._node, self._cluster), media_type=CONTENT_TYPE_LATEST)


def _answer(good: bool, text: str) -> Response:
    return PlainTextResponse(text + "\n", OK if good else UNAVAILABLE, {"Cache-Control": "no-store"})
