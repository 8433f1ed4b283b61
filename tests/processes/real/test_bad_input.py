"""What users get wrong, against real processes: one clear line and an exit code, and nothing else suffers."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer

pytestmark = pytest.mark.processes


def slotreeve(*arguments: str, seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a failed command prints for its user."""
    assert "Traceback" not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("slotreeve: error")]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


def works(dev: DevServer) -> bool:
    done = slotreeve("publish", "com.example.Works", "x", "--session", dev.session_address, "--for", "0")
    return done.returncode == 0


def test_an_address_in_use_is_named(dev: DevServer) -> None:
    done = slotreeve("data", "run", "--set", f"node.advertise={dev.session_address}", "--until-eof")
    assert done.returncode == 4
    assert re.search(rf"SR201: .*{re.escape(dev.session_address)}", error_line(done))
    assert works(dev)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nothing" / "here"
    done = slotreeve(
        "meta",
        "run",
        "--set",
        f"cluster.meta.meta-1={free_address()}",
        "--set",
        f"election.fle.data_dir={missing}",
        "--until-eof",
    )
    assert done.returncode == 1
    assert re.search(rf"SR130: .*{re.escape(str(missing.parent))}", error_line(done))


def test_a_corrupt_directory_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    state = tmp_path / "state"
    flags = ["--set", f"cluster.meta.meta-1={free_address()}", "--set", f"election.fle.data_dir={state}"]
    with subprocess.Popen(
        [sys.executable, "-m", "slotreeve_cli", "meta", "run", "--until-eof", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        assert "listens at" in first.stdout.readline()
        first.communicate("")
    assert first.returncode == 0
    written = sorted(path for path in state.iterdir() if path.name != "lock")
    assert written
    for path in written:
        path.write_bytes(b"\xff" + os.urandom(64))
    before = {path.name: path.read_bytes() for path in written}
    done = slotreeve("meta", "run", *flags)
    assert done.returncode == 1
    assert re.search(rf"SR130: .*{re.escape(str(state))}", error_line(done))
    assert {path.name: path.read_bytes() for path in written} == before


def test_two_processes_cannot_share_a_directory(tmp_path: Path) -> None:
    flags = ["--set", f"election.fle.data_dir={tmp_path / 'state'}", "--until-eof"]
    command = [sys.executable, "-m", "slotreeve_cli", "meta", "run", *flags]
    first = subprocess.Popen(
        [*command, "--set", f"cluster.meta.meta-1={free_address()}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert first.stdout is not None
        assert "listens at" in first.stdout.readline()
        done = slotreeve("meta", "run", "--set", f"cluster.meta.meta-1={free_address()}", *flags)
        assert done.returncode == 1
        assert f"locked by another process (pid {first.pid})" in error_line(done) or str(first.pid) in error_line(done)
    finally:
        first.communicate("")


def test_another_clusters_name_is_refused_with_both(dev: DevServer) -> None:
    done = slotreeve("get", "x", "--session", dev.session_address, "--cluster", "other")
    assert done.returncode == 5
    assert re.search("SR203: .*this is cluster 'slotreeve', not 'other'", error_line(done))
    done = slotreeve("leader", "--meta", dev.meta_address, "--cluster", "other")
    assert done.returncode == 5
    assert works(dev)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("cluster.slots=128", "slots is 256 here and 128 there"),
        ("cluster.replicas=3", "replicas is 2 here and 3 there"),
        ("slot_function.use=md5", "function is 'crc32c' here and 'md5' there"),
    ],
)
@pytest.mark.parametrize("role", ["data", "session"])
def test_a_server_whose_slot_facts_differ_ends_with_the_difference(
    dev: DevServer, role: str, setting: str, named: str
) -> None:
    done = slotreeve(
        role,
        "run",
        "--set",
        setting,
        "--set",
        f"cluster.meta.meta-1={dev.meta_address}",
        "--set",
        f"node.advertise={free_address()}",
    )
    assert done.returncode == 5
    assert named in error_line(done)
    assert works(dev)


def test_a_cluster_does_not_start_again_with_another_number_of_slots(tmp_path: Path) -> None:
    meta, data = free_address(), free_address()
    flags = ["--set", f"cluster.meta.meta-1={meta}", "--set", f"election.fle.data_dir={tmp_path / 'state'}"]
    meta_process = subprocess.Popen(
        [sys.executable, "-m", "slotreeve_cli", "meta", "run", "--until-eof", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    data_process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "slotreeve_cli",
            "data",
            "run",
            "--until-eof",
            *flags[:2],
            "--set",
            f"node.advertise={data}",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        seen = ""
        for _ in range(200):
            seen = slotreeve("slots", "--meta", meta, "-o", "json").stdout
            if '"leader": "data-' in seen:
                break
        assert '"leader": "data-' in seen
        table = tmp_path / "table.json"
        table.write_text(seen)
        assert slotreeve("plan", "converge", "--plugin", "even", str(table)).returncode == 0, (
            "its table can be played with"
        )
    finally:
        data_process.communicate("")
        meta_process.communicate("")
    done = slotreeve("meta", "run", *flags, "--set", "cluster.slots=64")
    assert done.returncode == 2
    assert "made with 256 slots, 2 replicas and slot function 'crc32c'" in error_line(done)


def test_a_meta_server_that_waits_for_its_database_says_so_and_can_be_stopped() -> None:
    nowhere = "postgres://slotreeve:parole@127.0.0.1:1/slotreeve"
    flags = ["--set", "election.use=postgres", "--set", f"election.postgres.dsn={nowhere}"]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "slotreeve_cli", "meta", "run", *flags),
            *("--set", f"cluster.meta.meta-1={free_address()}"),
        ],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "waiting for the database" in line)
        assert "127.0.0.1:1" in line
        assert "parole" not in line
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10, b"\x00" * 5000, os.urandom(5000)], ids=len
)
def test_garbage_sent_to_a_port_disturbs_no_other_connection(dev: DevServer, garbage: bytes) -> None:
    for address in (dev.meta_address, dev.session_address):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as raw:
            raw.sendall(garbage)
    assert works(dev)


def test_a_listen_address_open_to_the_world_needs_consent() -> None:
    done = slotreeve("session", "run", "--set", "node.bind=0.0.0.0:7730")
    assert done.returncode == 2
    assert "node.insecure = true" in error_line(done)


def test_a_meta_server_must_be_one_of_the_cluster() -> None:
    done = slotreeve("meta", "run", "--name", "meta-9")
    assert done.returncode == 2
    assert re.search(r"node\.name .*'meta-9' is not in \[cluster\.meta\]", error_line(done))


def test_an_address_without_a_server_is_exit_code_four_or_six() -> None:
    nowhere = free_address()
    assert slotreeve("leader", "--meta", nowhere).returncode == 4
    done = slotreeve("get", "x", "--session", nowhere)
    assert done.returncode == 6
    assert nowhere in error_line(done)


def test_a_service_without_providers_is_exit_code_three(dev: DevServer) -> None:
    done = slotreeve("get", "com.example.Nobody", "--session", dev.session_address)
    assert done.returncode == 3
    assert "has no providers" in done.stdout


@pytest.mark.parametrize("service", ["", "  ", "a#@#b", "x" * 3000])
def test_what_can_be_no_service_is_exit_code_two(dev: DevServer, service: str) -> None:
    done = slotreeve("get", service, "--session", dev.session_address)
    assert done.returncode == 2
    assert "SR120" in error_line(done)
