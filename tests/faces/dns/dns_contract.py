"""How the contract of faces asks the face for DNS: without sockets, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import dns.exception
import dns.flags
import dns.message
import dns.rcode
from slotreeve_face_dns.answers import RejectedQuery
from slotreeve_face_dns.face import DnsFace
from slotreeve_simulator.face_contract import GARBAGE, FaceContract, FaceRequest
from slotreeve_simulator.simulated_gateway import GatewayAnswer, SimulatedGateway

STATUSES: Mapping[int, int] = {
    dns.rcode.NOERROR: 200,
    dns.rcode.FORMERR: 400,
    dns.rcode.SERVFAIL: 503,
    dns.rcode.NXDOMAIN: 404,
    dns.rcode.NOTIMP: 400,
    dns.rcode.REFUSED: 403,
    dns.rcode.BADVERS: 400,
}
"""What HTTP says in the place of each code of DNS."""
NO_REPLY = 400


class DnsFaceContract(FaceContract):
    """Requests have a type of records as their method and a name as their path; a body takes the place of both. Each is
    asked over TCP, and over UDP from this machine and from another one; the worst of the answers counts."""

    face = "dns"
    options: Mapping[str, object] = {"strangers": True}
    requests: Sequence[FaceRequest] = ()

    async def begin(self, gateway: SimulatedGateway) -> None:
        """See FaceContract. The face does not listen."""
        gateway.build_face(self.face, self.options)

    async def ask(self, gateway: SimulatedGateway, request: FaceRequest, leave: float = 0) -> GatewayAnswer:
        """See FaceContract."""
        asking = asyncio.ensure_future(self._asked(gateway, request))
        done, _ = await asyncio.wait([asking], timeout=leave or None)
        if not done:
            asking.cancel()
            return GatewayAnswer(0, {}, b"", leave)
        return asking.result()

    async def _asked(self, gateway: SimulatedGateway, request: FaceRequest) -> GatewayAnswer:
        began, face = gateway.clock.now(), gateway.faces[self.face]
        assert isinstance(face, DnsFace)
        assert isinstance(request.body, bytes)
        wire = request.body or dns.message.make_query(request.path, request.method, use_edns=True).to_wire()
        replies = [await _reply(face, wire, over_tcp, is_local) for over_tcp, is_local in WAYS]
        statuses = [_status(reply) for reply in replies]
        worst = max(statuses)
        reply = replies[statuses.index(worst)] or b""
        return GatewayAnswer(worst, {}, reply, gateway.clock.now() - began)

    def wrong(self, request: FaceRequest) -> Iterator[FaceRequest]:
        """See FaceContract."""
        yield FaceRequest(request.method, f"{request.path}elsewhere.")
        yield FaceRequest("AXFR", request.path)
        yield FaceRequest("", "", dns.message.make_query(request.path, request.method, "CH").to_wire())

    def strange(self, request: FaceRequest) -> Iterator[FaceRequest]:
        """See FaceContract."""
        good = dns.message.make_query(request.path, request.method, use_edns=True).to_wire()
        for body in (*GARBAGE[1:], *(good[:at] for at in range(1, len(good))), good + b"x"):
            yield FaceRequest("", "", body)
        for at in range(len(good)):
            yield FaceRequest("", "", good[:at] + bytes((good[at] ^ 0xFF,)) + good[at + 1 :])
        for kind in ("ANY", "MX", "TYPE65280", "SOA", "NS"):
            yield FaceRequest(kind, request.path)
        for name in ("\\000", "\\255", "\\.", "a" * 63):
            with suppress(dns.exception.DNSException):
                yield FaceRequest(request.method, f"{name}.{request.path}")


WAYS = ((True, False), (False, False), (False, True))
"""Over TCP or not, from this machine or not."""


async def _reply(face: DnsFace, wire: bytes, over_tcp: bool, is_local: bool) -> bytes | None:
    query = face.responder.read(wire, over_tcp, is_local)
    if isinstance(query, RejectedQuery):
        return query.reply
    waited = await face.responder.reply(query)
    at_once = face.responder.at_once(query)
    assert at_once is None or at_once[:3] == waited[:3]
    return waited


def _status(reply: bytes | None) -> int:
    if reply is None:
        return NO_REPLY
    message = dns.message.from_wire(reply, ignore_trailing=False)
    assert message.flags & dns.flags.QR
    return STATUSES[message.rcode()]
