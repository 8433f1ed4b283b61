"""The client library, for asyncio (:func:`connect`) and for threads (:func:`connect_blocking`).

::

    async with slotreeve_client.connect("127.0.0.1:7730") as client:
        publication = client.publish("com.example.Greeter", b"10.0.0.1:8080")
        await publication.acknowledged()
        subscription = client.subscribe("com.example.Greeter", lambda s: print(s.instances))
        client.register("com.example.Shop", Instance("10.0.0.1", 8080, tags=("blue",)))

    with slotreeve_client.connect_blocking("127.0.0.1:7730") as client:
        client.publish("com.example.Greeter", b"10.0.0.1:8080").acknowledged(timeout_seconds=5)
"""

from typing import TYPE_CHECKING

from slotreeve.late_names import late_names
from slotreeve_protocol.client_messages import Scope
from slotreeve_protocol.instance import Health, Instance

from slotreeve_client.choosers import Chooser, RoundRobin, WeightedRandom, ZoneFirst
from slotreeve_client.client import Client, ClientState, connect
from slotreeve_client.configuration import ConfigWatch
from slotreeve_client.instance_publication import InstancePublication
from slotreeve_client.leases import Lease, LeaseAnswers
from slotreeve_client.provider import Provider
from slotreeve_client.publication import Publication
from slotreeve_client.selection import Filter, Selection
from slotreeve_client.statistics import ClientStatistics
from slotreeve_client.subscription import Subscription
from slotreeve_client.threads import BlockingClient, connect_blocking

if TYPE_CHECKING:
    from slotreeve_client.options import ClientOptions

__all__ = [
    "BlockingClient",
    "Chooser",
    "Client",
    "ClientOptions",
    "ClientState",
    "ClientStatistics",
    "ConfigWatch",
    "Filter",
    "Health",
    "Instance",
    "InstancePublication",
    "Lease",
    "LeaseAnswers",
    "Provider",
    "Publication",
    "RoundRobin",
    "Scope",
    "Selection",
    "Subscription",
    "WeightedRandom",
    "ZoneFirst",
    "connect",
    "connect_blocking",
]

__getattr__ = late_names(__name__, {"ClientOptions": "slotreeve_client.options"})
