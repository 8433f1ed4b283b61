"""What operators read."""

from __future__ import annotations

from msgspec import UNSET, Struct
from msgspec.structs import replace
from slotreeve.errors import NotThere
from slotreeve.model.text import check_text
from slotreeve_client.administration import change_orders, cluster_view, get_configs, get_entry
from slotreeve_client.audience import connected_clients, subscribers_of, uses_of
from slotreeve_client.condition import MetaSeen, cluster_condition, meta_servers
from slotreeve_client.delays import DelaysReport, cluster_delays, delays_report
from slotreeve_client.reports import (
    ApplicationsReport,
    ClientsReport,
    ClusterReport,
    SubscribersReport,
    UsesReport,
    applications_report,
    clients_report,
    cluster_report,
    server_reports,
    subscribers_report,
    table_report,
    uses_report,
)
from slotreeve_gateway import ClusterServers, Right
from slotreeve_gateway.acts.kinds import OWN_KEYS
from slotreeve_gateway.rest import Answer, Handler, NoQuery, RestCall, RestOperation, json_answer
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.overrides import OVERRIDES_KEY, Overrides
from slotreeve_protocol.people_messages import MAX_APPLICATION_LENGTH
from slotreeve_protocol.provided import check_config_key
from starlette.responses import Response

from slotreeve_face_admin import documents
from slotreeve_face_admin.acts import PREFIX
from slotreeve_face_admin.documents import encode
from slotreeve_face_admin.queries import (
    ClientsQuery,
    DelaysQuery,
    ListQuery,
    SlotsQuery,
    SubscribersQuery,
    UsesQuery,
    page_of,
)


class AdminReads:
    """Reads the state of the cluster from its servers, anew for each request."""

    def __init__(self, servers: ClusterServers) -> None:
        self._servers = servers

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may ask."""
        none = Answer("There is none.")
        return [
            read_page(
                "status", "getStatus", "Whether the cluster is well, and what is not.", self._status, ClusterReport
            ),
            read_page("members", "listMembers", "Every server with its state.", self._members, documents.MemberList),
            read_page("slots", "listSlots", "The slot table.", self._slots, documents.SlotList, SlotsQuery, none),
            read_page("orders", "getOrders", "The standing orders.", self._orders, documents.OrdersShown),
            read_page(
                "configuration",
                "listConfiguration",
                "The keys of the provided configuration.",
                self._keys,
                documents.KeyList,
                ListQuery,
            ),
            read_page(
                "configuration/{key}",
                "getConfiguration",
                "One value of the provided configuration.",
                self._value,
                documents.ValueShown,
                none=none,
            ),
            read_page("election", "getElection", "Who leads, by each server.", self._election, documents.ElectionShown),
            read_page("overrides", "listOverrides", "All overrides.", self._overrides, documents.OverrideList),
            read_page(
                "clients",
                "listClients",
                "The connected clients of all session servers. The prefix is one of their ids or of their addresses.",
                self._clients,
                ClientsReport,
                ClientsQuery,
            ),
            read_page(
                "applications",
                "listApplications",
                "The applications of all connected clients, as these say.",
                self._applications,
                ApplicationsReport,
            ),
            read_page(
                "applications/{application}",
                "getApplication",
                "What an application publishes and subscribes to, at all session servers.",
                self._uses,
                UsesReport,
                UsesQuery,
            ),
            read_page(
                "services/{service}/subscribers",
                "listSubscribers",
                "The subscribers of a service at all session servers.",
                self._subscribers,
                SubscribersReport,
                SubscribersQuery,
            ),
            read_page(
                "delays",
                "getDelays",
                "How long changes take, stage by stage, against the objective; who lags and why.",
                self._delays,
                DelaysReport,
                DelaysQuery,
            ),
        ]

    async def _status(self, call: RestCall) -> Response:
        return json_answer(encode(cluster_report(await cluster_condition(*self._servers.asked))))

    async def _members(self, call: RestCall) -> Response:
        found = await cluster_condition(*self._servers.asked)
        return json_answer(encode(documents.MemberList(server_reports(found))))

    async def _slots(self, call: RestCall) -> Response:
        query: SlotsQuery = call.query
        table = table_report(await cluster_view(*self._servers.asked))
        chosen = table.slots if query.slot is UNSET else [each for each in table.slots if each.slot == query.slot]
        if not chosen and query.slot is not UNSET:
            raise NotThere(f"there is no slot {query.slot}; the table has {len(table.slots)}")
        page, after = page_of(chosen, lambda each: each.slot, query.after, query.limit)
        return json_answer(encode(documents.SlotList(table.epoch, table.term, page, after)))

    async def _orders(self, call: RestCall) -> Response:
        orders, _ = await change_orders(*self._servers.asked, lambda orders: orders)
        return json_answer(encode(documents.OrdersShown.of(orders)))

    async def _keys(self, call: RestCall) -> Response:
        query: ListQuery = call.query
        entries = await get_configs(*self._servers.asked, query.prefix)
        page, after = page_of(entries, lambda entry: entry.key, query.after, query.limit)
        return json_answer(encode(documents.KeyList(list(map(_key_shown, page)), after)))

    async def _value(self, call: RestCall) -> Response:
        key = call.names["key"]
        check_config_key(key)
        if key.startswith(OWN_KEYS):
            raise NotThere(f"{key!r} belongs to slotreeve itself; its value is not shown")
        entry = await get_entry(*self._servers.asked, key)
        if entry.value is None:
            raise NotThere(f"the provided configuration has no key {key!r}")
        return json_answer(encode(documents.ValueShown.of(entry)))

    async def _election(self, call: RestCall) -> Response:
        transport, cluster, addresses = self._servers.asked
        metas = await meta_servers(transport, cluster, list(addresses))
        leads = next((meta for meta in metas if meta.state == "leads"), None)
        term = None if leads is None or leads.known is None else leads.known.term
        shown = documents.ElectionShown(None if leads is None else leads.name, term, list(map(_meta_shown, metas)))
        return json_answer(encode(shown))

    async def _overrides(self, call: RestCall) -> Response:
        overrides = Overrides.decode((await get_entry(*self._servers.asked, OVERRIDES_KEY)).value)
        shown = [
            documents.OverrideShown(service, instance_id, one.weight, one.enabled, one.drain, one.note)
            for service, of_service in sorted(overrides.services.items())
            for instance_id, one in sorted(of_service.items())
        ]
        return json_answer(encode(documents.OverrideList(shown)))

    async def _clients(self, call: RestCall) -> Response:
        query: ClientsQuery = call.query
        application = None if query.application is UNSET else query.application
        found = clients_report(await connected_clients(*self._servers.asked), query.prefix, application)
        page, after = page_of(found.clients, lambda one: one.client, query.after, query.limit)
        return json_answer(encode(replace(found, clients=page, next=after)))

    async def _applications(self, call: RestCall) -> Response:
        return json_answer(encode(applications_report(await connected_clients(*self._servers.asked))))

    async def _uses(self, call: RestCall) -> Response:
        query: UsesQuery = call.query
        application = call.names["application"]
        check_text("the name of the application", application, MAX_APPLICATION_LENGTH)
        found = uses_report(await uses_of(*self._servers.asked, application))
        page, after = page_of(found.uses, lambda one: one.service, query.after, query.limit)
        return json_answer(encode(replace(found, uses=page, next=after)))

    async def _delays(self, call: RestCall) -> Response:
        query: DelaysQuery = call.query
        return json_answer(encode(delays_report(await cluster_delays(*self._servers.asked, query.service))))

    async def _subscribers(self, call: RestCall) -> Response:
        query: SubscribersQuery = call.query
        found = subscribers_report(await subscribers_of(*self._servers.asked, call.service))
        page, after = page_of(found.subscribers, lambda one: one.client, query.after, query.limit)
        return json_answer(encode(replace(found, subscribers=page, next=after)))


def _key_shown(entry: ConfigEntry) -> documents.KeyShown:
    assert entry.value is not None
    return documents.KeyShown(entry.key, entry.version, len(entry.value), entry.key.startswith(OWN_KEYS))


def _meta_shown(meta: MetaSeen) -> documents.MetaShown:
    known, problem = meta.known, meta.problem or meta.cause
    if known is None:
        return documents.MetaShown(meta.name, meta.address, meta.state, None, None, None, None, problem)
    return documents.MetaShown(
        meta.name, meta.address, meta.state, known.leader, known.term, known.use, known.configured, problem
    )


def read_page(
    path: str,
    name: str,
    summary: str,
    handler: Handler,
    body: type[Struct],
    query: type[Struct] = NoQuery,
    none: Answer | None = None,
) -> RestOperation[Handler]:
    """A page below /v1/admin that only reads. ``body``: what it answers. ``none``: its answer where there is none."""
    answers = {200: Answer(summary, body)} | ({404: none} if none is not None else {})
    place = f"{PREFIX}/{path}"
    return RestOperation("GET", place, name, summary, handler, answers, Right.OPERATE, query, for_all=True)
