"""A server of any role, as a type. Importing this imports all of them: :mod:`slotreeve_servers.launch` does not."""

from __future__ import annotations

from slotreeve_servers.data.server import DataServer
from slotreeve_servers.meta.server import MetaServer
from slotreeve_servers.session.server import SessionServer

Server = MetaServer | DataServer | SessionServer
