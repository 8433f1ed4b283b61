"""Commands of operators that ask a gateway instead of the servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError, Forbidden, NotThere, Unauthenticated, Unreachable, VersionConflict
from slotreeve_cli.main import command_line
from slotreeve_cli.through_gateway import ThroughGateway
from slotreeve_client.reports import ClusterReport
from typer.testing import CliRunner, Result

from tests.faces.admin.admin_scene import access_with
from tests.faces.stage import Stage, run_story

SERVICE = "com.example.Shop"


async def command(stage: Stage, *arguments: str) -> Result:
    gateway = ["--gateway", stage.gateway.address]
    return await asyncio.to_thread(CliRunner().invoke, command_line(arguments[0]), [*arguments, *gateway])


def test_an_operator_looks_and_orders_with_a_route_to_a_gateway_only() -> None:
    async def story(stage: Stage) -> None:
        await stage.sdk.publish(SERVICE, "x").acknowledged()
        await stage.sdk.subscribe(SERVICE, lambda _: None).ready()
        status = await command(stage, "status", "-o", "json")
        assert (status.exit_code, json.loads(status.stdout)["well"]) == (0, True), status.output
        shown = await command(stage, "status")
        assert shown.stdout.splitlines()[0] == "The cluster is well."
        members = json.loads((await command(stage, "members", "-o", "json")).stdout)
        servers = json.loads(status.stdout)["servers"]
        assert [one["name"] for one in members] == [one["name"] for one in servers]
        clients = json.loads((await command(stage, "clients", "-o", "json")).stdout)
        assert stage.sdk.client_id in {one["client"] for one in clients}
        named = json.loads((await command(stage, "clients", "--application", "slotreeve gateway", "-o", "json")).stdout)
        assert [one["application"] for one in named] == ["slotreeve gateway"]
        all_of_them = json.loads((await command(stage, "application", "-o", "json")).stdout)
        assert [one["application"] for one in all_of_them] == ["", "slotreeve gateway"]
        assert (await command(stage, "application", "nobody/here")).exit_code == 3
        (subscriber,) = json.loads((await command(stage, "subscribers", SERVICE, "-o", "json")).stdout)
        assert (subscriber["client"], subscriber["scope"]) == (stage.sdk.client_id, "data_center")
        delays = await command(stage, "delays", SERVICE, "-o", "json")
        assert (delays.exit_code, json.loads(delays.stdout)["delay_ms"]) == (0, 500), delays.output
        nobody = await command(stage, "subscribers", "com.example.Nobody")
        assert nobody.exit_code == 3
        banned = await command(stage, "admin", "ban", "data-1", "a/b", "-o", "json")
        assert json.loads(banned.stdout)[0]["banned"] == ["a/b", "data-1"], banned.output
        assert "Banning a/b has no effect yet" in banned.stderr
        unbanned = await command(stage, "admin", "unban", "data-1", "a/b", "-o", "json")
        assert json.loads(unbanned.stdout)[0]["banned"] == []
        stopped = await command(stage, "admin", "stop-push", "--except", "10.0.0.7", "-o", "json")
        assert json.loads(stopped.stdout)[0] == {
            "banned": [],
            "push": "stopped",
            "push_to": ["10.0.0.7"],
            "clients_off": [],
            "ends": "on",
        }
        assert (await command(stage, "status")).exit_code == 1
        await command(stage, "admin", "start-push")
        frozen = await command(stage, "admin", "freeze", "-o", "json")
        assert json.loads(frozen.stdout)[0]["ends"] == "frozen", frozen.output
        assert "Ends of registrations are frozen by an order" in (await command(stage, "status")).stdout
        assert "Thawing ends lets 0 registrations" in (await command(stage, "admin", "thaw")).stderr
        off = await command(stage, "admin", "client-off", "10.0.0.9", "-o", "json")
        assert json.loads(off.stdout)[0]["clients_off"] == ["10.0.0.9"]
        await command(stage, "admin", "client-on", "10.0.0.9")
        assert json.loads((await command(stage, "admin", "show", "-o", "json")).stdout)[0]["clients_off"] == []

    run_story(story, faces="admin")


def test_an_operator_drains_writes_and_overrides_with_a_route_to_a_gateway_only() -> None:
    async def story(stage: Stage) -> None:
        tried = await command(stage, "drain", "data-1", "--dry-run")
        assert (tried.exit_code, "Draining data-1 moves" in tried.stdout) == (0, True), tried.output
        drained = await command(stage, "drain", "data-1")
        assert drained.exit_code == 0, drained.output
        assert drained.stdout.endswith("data-1 holds nothing any more; slotreeve admin unban data-1 undoes it\n")
        assert (await command(stage, "drain", "data-2")).exit_code == 1
        assert (await command(stage, "drain", "nobody")).exit_code == 3
        sent = await command(stage, "drain", "session-1", "--no-wait")
        assert "session-1 is banned and hands over" in sent.stdout
        await command(stage, "admin", "unban", "data-1", "session-1")

        put = await command(stage, "provide", "put", "limits/rate", "100", "-o", "json")
        assert json.loads(put.stdout) == [{"key": "limits/rate", "version": 1, "value": "100"}], put.output
        again = await command(stage, "provide", "put", "limits/rate", "200", "--expected-version", "0")
        assert (again.exit_code, isinstance(again.exception, VersionConflict)) == (1, True), again.exception
        got = await command(stage, "provide", "get", "limits/rate", "-o", "json")
        assert json.loads(got.stdout) == json.loads(put.stdout)
        every = json.loads((await command(stage, "provide", "get", "-o", "json")).stdout)
        assert [(one["key"], one["value"]) for one in every] == [("limits/rate", "100"), ("slotreeve.intent", None)]
        gone = await command(
            stage, "provide", "put", "limits/rate", "--delete", "--expected-version", "1", "-o", "json"
        )
        assert json.loads(gone.stdout) == [{"key": "limits/rate", "version": 2, "value": None}]
        assert (await command(stage, "provide", "get", "limits/rate")).exit_code == 3

        place = (SERVICE, "10.0.0.1:80")
        done = await command(stage, "override", "set", *place, "--drain", "--note", "new disk")
        assert "until now it is as its provider says" in done.stderr, done.output
        await command(stage, "override", "set", *place, "--disabled")
        (row,) = json.loads((await command(stage, "override", "list", "-o", "json")).stdout)
        assert (row["drain"], row["enabled"], row["note"], row["registered"]) == (True, False, "new disk", None)
        await command(stage, "override", "set", *place, "--weight", "3", "--anew")
        (row,) = json.loads((await command(stage, "override", "list", SERVICE, "-o", "json")).stdout)
        assert (row["drain"], row["enabled"], row["note"], row["weight"]) == (False, None, "", 3)
        assert (await command(stage, "override", "clear", *place)).exit_code == 0
        assert (await command(stage, "override", "clear", *place)).exit_code == 3

        (member,) = json.loads((await command(stage, "election", "members", "list", "-o", "json")).stdout)
        assert (member["member"], member["answers"], member["leader"]) == ("meta-1", True, "meta-1")
        same = await command(stage, "election", "resign", "--to", "meta-1", "-o", "json")
        assert json.loads(same.stdout)[0]["resigned"] is None
        resigned = await command(stage, "election", "resign", "-o", "json")
        assert json.loads(resigned.stdout) == [{"resigned": "meta-1", "term": member["term"]}], resigned.output

        async def leads() -> bool:
            return (await command(stage, "election", "members", "list")).exit_code == 0

        await stage.until(leads, "meta-1 leads again")
        shown = await command(stage, "settings", "show", "gateway.", "-o", "json")
        assert [one["servers"] for one in json.loads(shown.stdout)] == [["gateway-1"]] * 4
        changed = await command(stage, "settings", "set", "session.linger_seconds", "2", "-o", "json")
        assert json.loads(changed.stdout)["done"], changed.output
        undone = await command(stage, "settings", "unset", "session.linger_seconds")
        assert "Undo: slotreeve settings set session.linger_seconds 2.0" in undone.stdout

    run_story(story, faces="admin")


def test_the_token_of_a_file_is_shown_and_refusals_have_their_codes(tmp_path: Path) -> None:
    access, token = access_with("operate:*")
    weak, weak_token = access_with("read:*")
    file = tmp_path / "token"

    def read(stage: Stage, file: Path | None) -> ClusterReport:
        return ThroughGateway(stage.url, file).read("status", ClusterReport)

    async def story(stage: Stage) -> None:
        with pytest.raises(Unauthenticated, match="a token is needed"):
            await asyncio.to_thread(read, stage, None)
        file.write_text(token["Authorization"].partition(" ")[2] + "\n")
        assert (await asyncio.to_thread(read, stage, file)).well
        with pytest.raises(NotThere):
            await asyncio.to_thread(lambda: ThroughGateway(stage.url, file).read("nothing", ClusterReport))

    async def weak_story(stage: Stage) -> None:
        file.write_text(weak_token["Authorization"].partition(" ")[2])
        with pytest.raises(Forbidden, match="no right to operate"):
            await asyncio.to_thread(read, stage, file)

    run_story(story, faces="admin", access=access)
    run_story(weak_story, faces="admin", access=weak)


def test_a_gateway_without_the_face_or_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        with pytest.raises(NotThere, match=r"its setting face\.use names the faces"):
            await asyncio.to_thread(lambda: ThroughGateway(stage.url, None).read("status", ClusterReport))

    run_story(story, faces="rest")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        ThroughGateway("http://127.0.0.1:9", None).read("status", ClusterReport)
    for url in ("file:///etc/passwd", "ftp://a", "http://", "http://a/b"):
        with pytest.raises(ConfigError, match="expected http"):
            ThroughGateway(url, None)
    for content in ("", "two words", "\u00fc"):
        file = tmp_path / "token"
        file.write_text(content)
        with pytest.raises(ConfigError, match="--token-file"):
            ThroughGateway("http://a", file)
    with pytest.raises(ConfigError, match="--token-file"):
        ThroughGateway("http://a", tmp_path / "missing")


def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        place = b"Location: http://127.0.0.1:9/v1/admin/status\r\n"
        writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n" + place + b"Connection: close\r\n\r\n")
        writer.close()

    async def scene() -> None:
        server = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        with pytest.raises(Unreachable, match="status 302"):
            await asyncio.to_thread(lambda: ThroughGateway(f"http://{host}:{port}", None).read("status", ClusterReport))
        server.close()

    asyncio.run(scene())
    assert len(seen) == 1


@pytest.mark.parametrize("url", ["http://localhost:abc", "http://[::1", "http://:7780", "ftp://x:1", "http://x:1/path"])
def test_an_address_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(ConfigError, match="expected http://host:port"):
        ThroughGateway(url, None)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{",
        b"HTTP/1.1 503 Busy\r\ncontent-length: 90\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{",
    ],
)
def test_what_is_no_whole_answer_of_a_gateway_is_unreachable(said: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(said)
        writer.close()

    async def body() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        gateway = ThroughGateway(f"127.0.0.1:{port}", None)
        for ask in (lambda: gateway.read("status", ClusterReport), lambda: list(gateway.lines("dump"))):
            try:
                await asyncio.to_thread(ask)
            except Unreachable:
                continue
            assert said.endswith(b"{")
            assert ask is not None
        server.close()

    asyncio.run(body())
