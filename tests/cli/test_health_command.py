"""``slotreeve health`` finds the pages of the server whose configuration it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from slotreeve.errors import ConfigError, Unreachable
from slotreeve.key_files import issue
from slotreeve.keys import KeyPair
from slotreeve.model.nodes import Role
from slotreeve_cli.health import place as place_async
from slotreeve_cli.main import command_line
from slotreeve_client.tools import new_key_pair
from slotreeve_servers.settings import ServerConfiguration, load_settings
from typer.testing import CliRunner

ON = {"http.enabled": True}


def place(configuration: ServerConfiguration, role: str = "") -> str:
    return asyncio.run(place_async(configuration, role))


class Pages(BaseHTTPRequestHandler):
    """It lives, and is not ready."""

    def do_GET(self) -> None:
        lives = self.path == "/livez"
        self.send_response(200 if lives else 503)
        self.end_headers()
        self.wfile.write(b"ok\n" if lives else b"[-] slots: 3 are copied\nnot ready\n")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is written to standard error."""


@contextmanager
def served() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def asked(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_line("health"), ["health", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_it_says_what_the_page_says_and_fails_where_the_page_does() -> None:
    with served() as address:
        flags = ("--set", "http.enabled=true", "--set", f"http.listen={address}")
        assert asked(*flags) == (0, "ok\n")
        assert asked("--ready", *flags) == (1, "[-] slots: 3 are copied\nnot ready\n")
    with pytest.raises(Unreachable, match=f"{address}: no answer about /livez"):
        asked(*flags)


def test_a_server_that_serves_no_pages_cannot_be_asked() -> None:
    with pytest.raises(ConfigError, match=r"http\.enabled is false"):
        asked()


@pytest.mark.parametrize(
    ("flags", "role", "found"),
    [
        ({"http.listen": "10.0.0.1:9100"}, "", "10.0.0.1:9100"),
        ({"http.listen": "0.0.0.0:9100", "http.strangers": True}, "", "127.0.0.1:9100"),
        ({"http.listen": "[::]:9100", "http.strangers": True}, "", "[::1]:9100"),
        ({}, "data", "127.0.0.1:7721"),
        ({"node.port_offset": 5}, "session", "127.0.0.1:7736"),
        ({}, "gateway", "127.0.0.1:7741"),
        ({"cluster.meta": {"a": "127.0.0.1:7700"}}, "meta", "127.0.0.1:7701"),
    ],
)
def test_where_the_pages_are(flags: dict[str, object], role: str, found: str) -> None:
    assert place(load_settings(None, {}, {**ON, **flags}), role) == found


def test_the_key_says_the_role_and_behind_every_address_is_loopback(tmp_path: Path) -> None:
    pair: KeyPair = new_key_pair()
    own = issue(tmp_path, "data-1", Role.DATA, pair)
    flags = {**ON, "node.own_key": str(own), "node.bind": "0.0.0.0:7720", "http.strangers": True}
    assert place(load_settings(None, {}, flags)) == "127.0.0.1:7721"
    with pytest.raises(ConfigError, match="key of the data data-1"):
        place(load_settings(None, {}, flags), "meta")


def test_pages_for_strangers_are_a_choice_of_their_own(tmp_path: Path) -> None:
    own = issue(tmp_path, "data-1", Role.DATA, new_key_pair())
    flags = {**ON, "node.own_key": str(own), "node.bind": "0.0.0.0:7720"}
    with pytest.raises(ConfigError, match=r"accept that with http\.strangers = true"):
        place(load_settings(None, {}, flags))


def test_without_a_key_the_role_must_be_said() -> None:
    with pytest.raises(ConfigError, match="expected --role"):
        place(load_settings(None, {}, ON))
    with pytest.raises(ConfigError, match="no server has this role"):
        place(load_settings(None, {}, ON), "client")
