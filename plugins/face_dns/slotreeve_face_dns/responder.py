"""What the registry has for a query. It has no sockets, so that the contract of faces can ask it in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import dns.rcode
from slotreeve.errors import AccessError, SlotreeveError
from slotreeve_gateway import Caller, Gateway, Right, ServiceView

from slotreeve_face_dns import DnsOptions
from slotreeve_face_dns.answers import AAAA, SRV, TXT, A, DnsAnswers, DnsQuery, RejectedQuery
from slotreeve_face_dns.names import DnsServices, NameKind
from slotreeve_face_dns.records import NO_RECORDS, Records

log = logging.getLogger("slotreeve.gateway.dns")

OF_SERVICES = frozenset((NameKind.SERVICE, NameKind.PART))
KEPT_KINDS = frozenset((A, AAAA, SRV, TXT))


class DnsResponder:
    """Answers queries from the registry.

    Attributes:
        failed: queries that the registry did not answer.
    """

    def __init__(self, gateway: Gateway, options: DnsOptions, host: str) -> None:
        self._gateway = gateway
        self._answers = DnsAnswers(options, gateway.rng, host)
        self._known: tuple[object, DnsServices] = (None, DnsServices(()))
        self.failed = 0

    def read(self, wire: bytes, over_tcp: bool, is_local: bool = False) -> DnsQuery | RejectedQuery:
        """Read a query, whatever the bytes are. ``is_local``: it comes from this machine."""
        return self._answers.read(wire, over_tcp, is_local)

    def cut(self, query: DnsQuery) -> bytes:
        """An answer without records that asks to ask again by TCP. It is no longer than the query."""
        return self._answers.cut(query)

    async def reply(self, query: DnsQuery) -> bytes:
        """The answer, once the registry has told what is needed for it."""
        try:
            return self._answers.answer(query, await self._found(query))
        except AccessError:
            return self._answers.failed(query, dns.rcode.REFUSED)
        except SlotreeveError as error:
            log.debug("no answer to a query: %s", error)
        except Exception:
            log.exception("a query failed")
        self.failed += 1
        return self._answers.failed(query, dns.rcode.SERVFAIL)

    async def _found(self, query: DnsQuery) -> Records | None:
        caller = self._gateway.access.caller(None)
        place = query.place
        if place.kind not in OF_SERVICES:
            return self._answers.own(place, query.question.kind)
        services = self._services(await self._gateway.registry.directory.services(), caller)
        data_info_id = services.named(place.service) if place.kind is NameKind.SERVICE else None
        if data_info_id is None:
            return NO_RECORDS if services.has_below(place.service) else None
        caller.require(Right.READ, data_info_id)
        return self._records(await self._gateway.registry.view(data_info_id), query)

    def at_once(self, query: DnsQuery) -> bytes | None:
        """The answer, if all that it needs is here; None: it may have to wait for the registry."""
        place, registry = query.place, self._gateway.registry
        try:
            caller = self._gateway.access.caller(None)
            if place.kind not in OF_SERVICES:
                return self._answers.answer(query, self._answers.own(place, query.question.kind))
            listed = registry.directory.current()
            if listed is None:
                return None
            services = self._services(listed, caller)
            data_info_id = services.named(place.service) if place.kind is NameKind.SERVICE else None
            if data_info_id is None:
                # A service that has just come is in the next list.
                return self._answers.answer(query, NO_RECORDS) if services.has_below(place.service) else None
            caller.require(Right.READ, data_info_id)
        except AccessError:
            return self._answers.failed(query, dns.rcode.REFUSED)
        except SlotreeveError:
            return None
        view = registry.current_view(data_info_id)
        return self._answers.answer(query, self._records(view, query)) if view is not None else None

    def _records(self, view: ServiceView, query: DnsQuery) -> Records:
        """The records of a service, made once for each of its versions. Only questions of which there are few are kept:
        a caller may think of any number of tags."""
        tag, kind = query.place.tag, query.question.kind

        def make() -> Records:
            return self._answers.of_service(view.instances, tag, kind)

        if kind not in KEPT_KINDS or (tag and tag not in _tags(view)):
            return make()
        return view.once(("dns", tag, kind), make)

    def _services(self, listed: Mapping[str, int], caller: Caller) -> DnsServices:
        """The names that callers without a token may see; made anew after a change only. What may not be seen is not
        there for them."""
        if self._known[0] is not listed:
            self._known = (listed, DnsServices(name for name in listed if caller.may(Right.READ, name)))
        return self._known[1]


def _tags(view: ServiceView) -> frozenset[str]:
    return view.once("dns tags", lambda: frozenset(tag.lower() for one in view.instances for tag in one.tags))
