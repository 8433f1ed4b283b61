"""The pipeline with log and warehouse in an object store: a server that speaks S3, and Hadoop's connector to it."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.conftest import QUICK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
STORE = Path(sys.prefix) / "object-store"
PATIENCE_SECONDS = 60
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONNECTOR = {
    "endpoint": "http://127.0.0.1:{port}",
    "path.style.access": "true",
    "connection.ssl.enabled": "false",
    "access.key": "anyone",
    "secret.key": "anything",
    # The connector is older than Spark's Hadoop: it has no such class as the default, and no units in numbers.
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "threads.keepalivetime": "60",
    "multipart.purge.age": "86400",
    "connection.timeout": "20000",
    "connection.establish.timeout": "5000",
    "connection.ttl": "300000",
    "connection.request.timeout": "0",
    "attempts.maximum": "1",
    "retry.limit": "1",
}
# The commands as a person gives them, on the store and on the disk, in one JVM; then every table is compared.
PROGRAM = """
import contextlib, io, json, sys
from slotreeve_cli.main import main
from slotreeve_spark.location import Files, Location
from slotreeve_spark.pipeline.records import CLEANED, QUARANTINE
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.session import open_session

conf, logs, moment, places = (json.loads(text) for text in sys.argv[1:5])
options = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
report, MARTS = {}, ("service_timeline", "slot_history", "membership")


def run(*words):
    sys.argv = ["slotreeve", "spark", *words, "--master", "local[2]", "-o", "json", *options]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main()
    except SystemExit as ended:
        assert not ended.code, (words, ended.code)
    return json.loads(printed.getvalue())


for name, place in places.items():
    report[name] = steps = []
    for number, lines in enumerate(logs):
        session = open_session("local[2]", conf)
        Files(session).create(Location.of(f"{place}/log/{number}.jsonl"), lines.encode())
        session.stop()
        steps.append(run("ingest", f"{place}/log", "--warehouse", f"{place}/a warehouse/", "--lateness", "9 days"))
        if number == 1:
            steps.append(run("compact", "--warehouse", f"{place}/a warehouse", "--keep-hours", "0"))
    only = [word for mart in MARTS for word in ("--only", mart)]
    steps.append(run("marts", "--warehouse", f"{place}/a warehouse", *only))
    steps.append(run("at", moment, "--warehouse", f"{place}/a warehouse"))

session = open_session("local[2]", conf)
for name, place in places.items():
    store = Warehouse.existing(f"{place}/a warehouse")
    tables = {
        "cleaned": store.table(session, "cleaned", CLEANED),
        "quarantine": store.table(session, "quarantine", QUARANTINE),
        **{mart: store.mart(session, mart) for mart in MARTS},
    }
    report[f"tables on {name}"] = {table: sorted(map(str, frame.collect())) for table, frame in tables.items()}
    files = Files(session).below(Location.of(f"{place}/a warehouse/cleaned"))
    report[f"small files on {name}"] = len([file for file in files if file.name.endswith(".parquet")])
for wrong in ("s3a://no-such-bucket/w", "s3a://slotreeve/nowhere"):
    try:
        Warehouse.existing(wrong).must_exist(session)
    except Exception as error:
        report[wrong] = f"{type(error).__name__}: {error}"
print(json.dumps(report), flush=True)
"""


def jars() -> list[Path]:
    found = sorted(STORE.glob("lib/python3*/site-packages/sagemaker_pyspark/jars/*.jar"))
    return [jar for jar in found if jar.name.startswith(("hadoop-aws-", "aws-java-sdk-bundle-"))]


@pytest.fixture(scope="module")
def port(java: None) -> Iterator[int]:
    """Of a store with one bucket, ``slotreeve``."""
    if not (STORE / "bin" / "python").exists() or len(jars()) != 2:
        reason = f"there is no object store in {STORE}: ./run test makes it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    command = [str(STORE / "bin" / "python"), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(number)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + PATIENCE_SECONDS
            while True:
                connection = http.client.HTTPConnection("127.0.0.1", number, timeout=10)
                try:
                    connection.request("PUT", "/slotreeve")
                    assert connection.getresponse().status == 200
                    break
                except OSError:
                    assert time.monotonic() < until, "the object store does not answer"
                    time.sleep(0.1)
                finally:
                    connection.close()
            yield number
        finally:
            server.kill()


def events() -> list[str]:
    """Three segments: days 0 and 1, then 0 and 2 with a bad line, then a late record of day 0 and one stored twice."""

    def line(number: int, day: int, kind: str, **fields: object) -> str:
        known = {"v": 1, "id": f"n/{number}", "at_ms": START_MS + day * DAY_MS + number, "node": "n", "kind": kind}
        return json.dumps({**known, **fields})

    def table(number: int, day: int, leader: str) -> str:
        changed = [{"slot": slot, "leader": leader, "leader_epoch": number, "followers": []} for slot in range(4)]
        return line(number, day, "table", epoch=number, term=1, changed=changed, moves=[])

    one = {"services": ["a"], "register_ids": ["r"], "versions": [1]}
    first = [line(1, 0, "registered", **one), table(2, 0, "data-1"), table(3, 1, "data-2")]
    second = [line(4, 0, "node_joined", member="data-1", role="data"), table(5, 2, "data-3"), "torn"]
    third = [line(6, 0, "unregistered", **one), first[1]]
    return ["\n".join(lines) for lines in (first, second, third)]


def test_tables_in_an_object_store_are_those_on_the_disk(port: int, tmp_path: Path) -> None:
    conf = {f"spark.hadoop.fs.s3a.{name}": value.format(port=port) for name, value in CONNECTOR.items()}
    conf |= {**QUICK, "spark.sql.shuffle.partitions": "1"}
    conf["spark.driver.extraClassPath"] = ":".join(map(str, jars()))
    places = {"s3": "s3a://slotreeve/a b", "disk": str(tmp_path / "a b")}
    moment = str(START_MS + DAY_MS + 500)
    command = [sys.executable, "-c", PROGRAM, *map(json.dumps, (conf, events(), moment, places))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    report = json.loads(done.stdout)

    first, second, rewritten, third, counted, table = report["s3"]
    assert (first["cleaned"], second["cleaned"], second["quarantined"], third["cleaned"]) == (3, 2, 1, 1)
    assert [(each["days"], each["deleted"]) for each in rewritten] == [
        (2, rewritten[0]["files_before"]),
        (1, rewritten[1]["files_before"]),
    ]
    assert {row["mart"]: row["rows"] for row in counted}["slot_history"] == 12
    assert [(row["slot"], row["leader"]) for row in table] == [(slot, "data-2") for slot in range(4)]
    assert report["disk"] == report["s3"]
    assert report["tables on s3"] == report["tables on disk"]
    assert len(report["tables on s3"]["cleaned"]) == 6
    assert report["small files on s3"] == report["small files on disk"] == 2, "of the newest day, and the late one"
    assert report["s3a://no-such-bucket/w"].startswith("ConfigError: s3a://no-such-bucket/w: there is no such bucket")
    assert report["s3a://slotreeve/nowhere"].startswith("ConfigError: s3a://slotreeve/nowhere: there is no such wareho")
