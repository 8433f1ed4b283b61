"""TLS of the HTTP end, with certificates that change while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from slotreeve.errors import ConfigError
from slotreeve_console.certificates import Certificates, TlsFiles
from slotreeve_console.http_end import PAGES, HttpEnd
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

PATIENCE = 20.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def page(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"over {request.url.scheme}")


class Files:
    """The files of a certificate, and those who issue."""

    def __init__(self, directory: Path) -> None:
        self.ca, self.other_ca = trustme.CA(), trustme.CA()
        self.of = TlsFiles(directory / "cert.pem", directory / "key.pem")
        self.client_ca = directory / "client_ca.pem"
        self.other_ca.cert_pem.write_to_path(self.client_ca)
        self.issue()

    def issue(self) -> trustme.LeafCert:
        issued = self.ca.issue_cert("localhost", "127.0.0.1")
        self.of.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.of.key.write_bytes(issued.private_key_pem.bytes())
        return issued

    def trusting(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    @classmethod
    async def of(cls, end: HttpEnd, context: ssl.SSLContext) -> Caller:
        host, _, port = end.address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), ssl=context))

    async def ask(self) -> bytes:
        self.writer.write(GET)
        return await self.reader.readuntil(b"over https")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - files have no event to wait for
        await asyncio.sleep(0.01)


async def serving(certificates: Certificates, head_seconds: float = 0.5) -> HttpEnd:
    application = Starlette(routes=[Route("/", page)])
    limits = replace(PAGES, head_seconds=head_seconds)
    end = HttpEnd(application, "127.0.0.1:0", limits=limits, certificates=certificates)
    await end.start()
    return end


def test_a_new_certificate_is_shown_to_new_callers_and_open_connections_go_on(files: Files) -> None:
    async def main() -> None:
        certificates = Certificates(files.of)
        end = await serving(certificates)
        async with asyncio.timeout(PATIENCE):
            before = await Caller.of(end, files.trusting())
            await before.ask()
            context = certificates.context
            files.issue()
            await until(lambda: certificates.context is not context)
            after = await Caller.of(end, files.trusting())
            assert after.shown != before.shown
            for caller in (before, after):
                assert b" 200 " in await caller.ask()
                caller.writer.close()
        await end.stop()

    asyncio.run(main())


@pytest.mark.parametrize("damage", ["half a certificate", "another key", "no key", "no file"])
def test_a_certificate_that_is_half_written_is_not_used_until_it_is_whole(
    files: Files, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(files.of)
    context = certificates.context
    issued = files.ca.issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    match damage:
        case "half a certificate":
            files.of.certificate.write_bytes(chain[: len(chain) // 3])
        case "another key":
            files.of.key.write_bytes(issued.private_key_pem.bytes())
        case "no key":
            files.of.key.write_bytes(b"")
        case _:
            files.of.certificate.unlink()
    for _ in range(3):
        certificates.look_again()
    assert certificates.context is context
    assert certificates.failures == 1
    assert caplog.text.count("the certificate before stays in use") == 1
    files.of.certificate.write_bytes(chain)
    files.of.key.write_bytes(issued.private_key_pem.bytes())
    certificates.look_again()
    assert certificates.context is not context


def test_files_that_did_not_change_are_not_read_again(files: Files) -> None:
    certificates = Certificates(files.of)
    context = certificates.context
    certificates.look_again()
    assert certificates.context is context


def test_files_that_cannot_be_used_at_the_start_are_refused_by_name(files: Files) -> None:
    files.of.key.write_text("rubbish")
    with pytest.raises(ConfigError, match=r"key\.pem: no TLS with these files"):
        Certificates(files.of)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(files: Files) -> None:
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(files.of.key.read_bytes(), None)
    locked = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"x"))
    files.of.key.write_bytes(locked)
    with pytest.raises(ConfigError, match="the key has a passphrase"):
        Certificates(files.of)


def test_callers_show_a_certificate_where_one_is_asked_for(files: Files) -> None:
    async def main() -> None:
        end = await serving(Certificates(replace(files.of, client_ca=files.client_ca)))
        async with asyncio.timeout(PATIENCE):
            known = files.trusting()
            files.other_ca.issue_cert("caller").configure_cert(known)
            caller = await Caller.of(end, known)
            assert b" 200 " in await caller.ask()
            caller.writer.close()
            stranger = files.trusting()
            files.ca.issue_cert("stranger").configure_cert(stranger)
            for context in (files.trusting(), stranger):
                # With TLS 1.3 a caller learns of it after its own handshake.
                refused = await Caller.of(end, context)
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    await refused.ask()
                refused.writer.close()
            await until(lambda: end.counters()["http_failed_handshakes"] == 2)
        await end.stop()

    asyncio.run(main())


def test_old_versions_of_tls_are_refused(files: Files) -> None:
    async def main() -> None:
        end = await serving(Certificates(files.of))
        old = files.trusting()
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        async with asyncio.timeout(PATIENCE):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await Caller.of(end, old)
        await end.stop()

    with pytest.warns(DeprecationWarning, match="TLSv1"):
        asyncio.run(main())


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "a part", "no TLS"])
def test_a_caller_that_does_not_get_through_the_handshake_loses_its_place(files: Files, said: bytes) -> None:
    async def main() -> None:
        end = await serving(Certificates(files.of), head_seconds=0.2)
        host, _, port = end.address.rpartition(":")
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(said)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            await until(lambda: end.counters()["http_failed_handshakes"] == 1)
            await until(lambda: end.counters()["http_connections"] == 0)
        await end.stop()

    asyncio.run(main())


def test_files_that_could_not_be_read_are_read_once_they_can_although_they_did_not_change(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(files.of)
    first = certificates.context
    files.issue()

    def refused(_context: ssl.SSLContext, *_given: object, **_named: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(ssl.SSLContext, "load_cert_chain", refused)
        for _ in range(3):
            certificates.look_again()
    assert (certificates.failures, certificates.context is first) == (1, True)
    assert len([record for record in caplog.records if "Too many open files" in record.message]) == 1
    certificates.look_again()
    assert certificates.context is not first


def test_over_tls_early_answers_arrive_and_the_end_stops_whatever_was_closed_twice(files: Files) -> None:
    async def main() -> None:
        end = await serving(Certificates(files.of), head_seconds=5.0)
        host, _, port = end.address.rpartition(":")
        for _ in range(5):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=files.trusting())
            writer.write(b"POST /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n")
            for _ in range(30):
                writer.write(bytes(100_000))
                await writer.drain()
            assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
            for connection in list(end._state.connections):
                connection.transport.close()
                connection.transport.close()
            await asyncio.sleep(0)
        await end.stop()

    asyncio.run(main())


def test_over_tls_answers_that_nobody_takes_are_bounded_together(files: Files) -> None:
    async def main() -> None:
        limits = replace(PAGES, idle_seconds=0.2, write_seconds=30.0, untaken_bytes=20_000_000)
        application = Starlette(routes=[Route("/", lambda _: PlainTextResponse(bytes(16_000_000)))])
        end = HttpEnd(application, "127.0.0.1:0", limits=limits, certificates=Certificates(files.of))
        await end.start()
        callers = [await Caller.of(end, files.trusting()) for _ in range(5)]
        for caller in callers:
            caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
            caller.writer.write(GET)
        async with asyncio.timeout(20.0):
            await until(lambda: end.counters()["http_slow_readers"] > 0)
        assert end.counters()["http_slow_readers"] < len(callers)
        for caller in callers:
            caller.writer.transport.abort()
        await end.stop()

    asyncio.run(main())
