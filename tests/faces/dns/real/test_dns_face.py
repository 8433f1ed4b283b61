"""The DNS face on real sockets, beside a registry in other processes; asked by dnspython's resolver functions."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.rcode
import pytest
from slotreeve.errors import ConfigError
from slotreeve_client import Instance, connect
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer

from tests.faces.dns.dns_on_trial import HOST, Dns, ask, ask_by_tcp, play, until
from tests.faces.programs import environment, program

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


def test_a_service_is_found_changes_and_goes(dev: DevServer) -> None:
    async def scenario(face: Dns) -> None:
        async with connect(dev.session_address) as client:

            async def answered(count: int) -> bool:
                reply = await ask(face)
                return sum(map(len, reply.answer)) == count

            assert (await ask(face)).rcode() == dns.rcode.NXDOMAIN
            instances = [Instance(f"10.0.0.{i}", 80) for i in range(1, 101)]
            handles = [client.register("dns.Greeter", instance) for instance in instances[:3]]
            await client.flush()
            await until(lambda: answered(3))
            assert (await ask(face, "Greeter.service.slotreeve.")).rcode() == dns.rcode.NOERROR
            assert (await ask(face, "dns.service.slotreeve.")).rcode() == dns.rcode.NXDOMAIN
            for above in ("Greeter._tcp.service.slotreeve.", "_tcp.slotreeve.", "_blue.service.slotreeve."):
                reply = await ask(face, above)
                assert (reply.rcode(), len(reply.answer)) == (dns.rcode.NOERROR, 0), above
            assert (await ask(face, "dns._tcp.service.slotreeve.")).rcode() == dns.rcode.NXDOMAIN
            assert {str(rr.target) for rr in (await ask(face, kind="SRV")).answer[0]} == {
                f"0a00000{i}.addr.slotreeve." for i in (1, 2, 3)
            }
            handles += [client.register("dns.Greeter", instance) for instance in instances[3:]]
            await client.flush()

            async def is_cut() -> bool:
                return bool((await ask(face, kind="SRV")).flags & dns.flags.TC)

            async def is_whole_by_tcp() -> bool:
                return len((await ask_by_tcp(face, kind="SRV")).answer[0]) == 100

            await until(is_cut)
            await until(is_whole_by_tcp)
            assert len((await ask(face, kind="SRV", payload=8_192)).answer[0]) == 100
            for handle in handles:
                handle.unpublish()
            await client.flush()

            async def is_gone() -> bool:
                return (await ask(face)).rcode() == dns.rcode.NXDOMAIN

            await until(is_gone)

    play(dev.session_address, scenario)


def test_without_the_registry_the_server_has_failed_and_the_name_may_be_there() -> None:
    async def scenario(face: Dns) -> None:
        assert (await ask(face, "slotreeve.", "SOA")).rcode() == dns.rcode.NOERROR
        assert (await ask(face)).rcode() == dns.rcode.SERVFAIL
        assert face.counters()["dns_failed"] == 1

    play(free_address(), scenario)


def test_callers_have_the_rights_of_anonymous_ones(dev: DevServer) -> None:
    async def scenario(face: Dns) -> None:
        async def is_refused() -> bool:
            return (await ask(face, "slotreeve.", "SOA")).rcode() == dns.rcode.REFUSED

        await until(is_refused)  # before the tokens are known the server fails

    play(dev.session_address, scenario, gateway__authentication="tokens")


def test_garbage_strangers_and_the_greedy_are_bounded_and_counted(dev: DevServer) -> None:
    async def scenario(face: Dns) -> None:
        reader, writer = await asyncio.open_connection(HOST, face.port)
        writer.write(struct.pack("!H", 60_000))
        assert await _rest(reader) == b""
        writer.close()
        slow, slow_writer = await asyncio.open_connection(HOST, face.port)
        slow_writer.write(b"\x00")
        assert await _rest(slow) == b""
        slow_writer.close()
        assert face.counters()["dns_slow_connections"] == 1

    play(dev.session_address, scenario, face__dns__idle_seconds=0.3)


def test_idle_connections_shut_nobody_out(dev: DevServer) -> None:
    async def scenario(face: Dns) -> None:
        held = [await asyncio.open_connection(HOST, face.port, local_addr=("127.0.0.9", 0)) for _ in range(300)]
        for _ in range(20):
            assert (await ask_by_tcp(face, "slotreeve.", "SOA")).rcode() == dns.rcode.NOERROR
        assert await _rest(held[0][0]) == b"", "the longest idle one has gone"
        assert face.counters()["dns_refused_connections"] >= 44
        assert face.counters()["dns_slow_connections"] == 0
        for _, writer in held:
            writer.close()

    play(dev.session_address, scenario, face__dns__idle_seconds=60.0)


def test_another_machine_gets_its_share_of_each_second_over_udp_and_this_one_is_not_limited(dev: DevServer) -> None:
    elsewhere = own_address()

    async def scenario(face: Dns) -> None:
        # More than two seconds' share, so that one second has too many of them.
        replies = await asyncio.gather(*[ask(face, "slotreeve.", "SOA", host=elsewhere) for _ in range(200)])
        limited = sum(bool(reply.flags & dns.flags.TC) for reply in replies)
        assert 0 < limited == face.counters()["dns_limited"]
        assert not (await ask_by_tcp(face, "slotreeve.", "SOA")).flags & dns.flags.TC
        replies = await asyncio.gather(*[ask(face, "slotreeve.", "SOA") for _ in range(200)])
        assert not any(reply.flags & dns.flags.TC for reply in replies)

    strangers = {"face__dns__strangers": True, "node__insecure": True, "gateway__listen": "0.0.0.0:0"}
    play(dev.session_address, scenario, face__dns__udp_bytes_per_source=4_096, **strangers)


def own_address() -> str:
    """An address of this machine that is none of loopback. Nothing is sent to find it."""
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError as error:
            pytest.skip(f"this machine has no address but loopback: {error}")
        return str(one.getsockname()[0])


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_a_face_that_strangers_can_reach_needs_their_name_in_its_options() -> None:
    async def scenario(face: Dns) -> None:
        raise AssertionError("it started")

    open_to_all = {"gateway__listen": "0.0.0.0:0", "node__insecure": True}
    with pytest.raises(ConfigError, match=r"face\.dns: 0\.0\.0\.0 can be .* accept it with face\.dns\.strangers"):
        play(free_address(), scenario, **open_to_all)


def dig(port: int, *arguments: str) -> list[str]:
    """The lines that dig prints."""
    command = [program("dig"), f"@{HOST}", "-p", str(port), "+time=5", "+tries=2", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_dig_reads_addresses_ports_and_texts_over_udp_and_tcp(dev: DevServer) -> None:
    async def scenario(face: Dns) -> None:
        async with connect(dev.session_address) as client:
            client.register("dns.Dug", Instance("10.0.0.1", 8080, metadata={"version": "2"}))
            client.register("dns.Dug", Instance("2001:db8::1", 8080))
            await client.flush()
            name = "dns.Dug.service.slotreeve"

            async def asked(*arguments: str) -> list[str]:
                return await asyncio.get_running_loop().run_in_executor(None, lambda: dig(face.port, *arguments))

            async def is_there() -> bool:
                return await asked(name, "A", "+short") == ["10.0.0.1"]

            await until(is_there)
            assert await asked(name, "AAAA", "+short", "+tcp") == ["2001:db8::1"]
            ports = await asked(name, "SRV", "+short")
            assert sorted(line.split()[2] for line in ports) == ["8080", "8080"]
            target = next(line.split()[3] for line in ports if "a000001" in line.lower())
            assert await asked(target, "A", "+short") == ["10.0.0.1"]
            whole = await asked(name, "SRV")
            assert any(line.startswith(target) and line.endswith("\t10.0.0.1") for line in whole), "additional records"
            assert any('"version=2"' in line for line in await asked(name, "TXT", "+short"))
            assert any("NXDOMAIN" in line for line in await asked("dns.Nobody.service.slotreeve", "A"))

    program("dig")
    play(dev.session_address, scenario)
