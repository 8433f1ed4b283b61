"""``slotreeve election force-new-cluster``: what it shows and refuses, and a lost majority of real processes."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError, StorageError
from slotreeve_cli.main import app
from slotreeve_client.administration import cluster_leader, cluster_view
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.left_directory import SKIPPED_EPOCHS
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_machines.storage import DirectoryStorage
from typer.testing import CliRunner, Result

from tests.election_fle.test_fle_left_directory import used
from tests.processes.under_load import configuration, leader, slotreeve, under_load

METAS = [part for n in (1, 2, 3) for part in ("--set", f"cluster.meta.meta-{n}=127.0.0.1:{7000 + 10 * n}")]
FLAGS = [*METAS, "--set", "election.fle.data_dir=state-{node}"]


def left(path: Path, epoch: int, writes: int) -> Path:
    """A data directory of a stopped server that was in sync with the leader of ``epoch``."""
    memory = used(epoch, epoch, [Entry(epoch << 32 | n + 1, "k", b"%d" % n, n + 1) for n in range(writes)], 0)
    storage = DirectoryStorage.open(path)
    for name, content in memory.files.items():
        storage.replace(name, content)
    storage.close()
    return path


def forced(*arguments: str | Path, answer: str = "") -> Result:
    command = ["election", "force-new-cluster", *FLAGS, *map(str, arguments)]
    return CliRunner().invoke(app, command, input=answer)


def accepted(path: Path) -> int:
    storage = DirectoryStorage.open(path)
    try:
        return Disk(storage).read_ledger().accepted_epoch
    finally:
        storage.close()


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "lock"}


def test_a_dry_run_shows_the_directories_and_which_one_is_most_advanced_and_writes_nothing(tmp_path: Path) -> None:
    behind, ahead = left(tmp_path / "behind", 4, 9), left(tmp_path / "ahead", 5, 1)
    before = contents(behind), contents(ahead)
    result = forced(behind, ahead, "--dry-run", "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [
        {
            "directory": str(behind),
            "chosen": False,
            "epoch": 4,
            "last zxid": "0x400000009",
            "accepted epoch": 4,
            "keys": 1,
        },
        {
            "directory": str(ahead),
            "chosen": True,
            "epoch": 5,
            "last zxid": "0x500000001",
            "accepted epoch": 5,
            "keys": 1,
        },
    ]
    assert "2 of 3 directories are left" in result.stderr
    assert (contents(behind), contents(ahead)) == before


def test_it_asks_first_and_names_what_is_given_up(tmp_path: Path) -> None:
    path = left(tmp_path / "state", 4, 3)
    before = contents(path)
    refused = forced(path, answer="n\n")
    assert refused.exit_code == 1
    assert "acknowledged after write 0x400000003 is given up" in refused.stderr
    assert contents(path) == before
    done = forced(path, answer="y\n")
    assert done.exit_code == 0
    assert f"{path} is the beginning of the new cluster" in done.stderr
    assert accepted(path) == 4 + SKIPPED_EPOCHS


def test_the_most_advanced_one_is_forced_and_the_others_stay_as_they_are(tmp_path: Path) -> None:
    behind, ahead = left(tmp_path / "behind", 4, 2), left(tmp_path / "ahead", 4, 3)
    before = contents(behind)
    assert forced(ahead, behind, "--yes").exit_code == 0
    assert contents(behind) == before
    assert accepted(ahead) == 4 + SKIPPED_EPOCHS


def test_a_damaged_directory_is_left_out_and_no_good_one_is_an_error(tmp_path: Path) -> None:
    good, damaged = left(tmp_path / "good", 4, 2), left(tmp_path / "damaged", 5, 2)
    (damaged / "epochs").write_bytes(b"nonsense")
    result = forced(damaged, good, "--yes", "-o", "json")
    assert result.exit_code == 0
    assert [(row["directory"], row["chosen"]) for row in json.loads(result.stdout)] == [(str(good), True)]
    assert f"left out: {damaged}/epochs: is damaged" in result.stderr
    alone = forced(damaged, "--yes")
    assert isinstance(alone.exception, StorageError)
    assert "epochs: is damaged" in str(alone.exception)


def test_a_directory_in_use_is_refused_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    path = left(tmp_path / "state", 4, 2)
    owner = DirectoryStorage.open(path)
    result = forced(path, "--yes")
    owner.close()
    assert isinstance(result.exception, StorageError)
    assert "locked by another process" in str(result.exception)
    assert "stop its meta server" in str(result.exception)
    assert accepted(path) == 4
    missing = forced(tmp_path / "missing", "--yes")
    assert "is no directory" in str(missing.exception)
    assert not (tmp_path / "missing").exists()


def test_an_election_without_data_directories_is_refused(tmp_path: Path) -> None:
    path = left(tmp_path / "state", 4, 2)
    result = forced(
        path,
        "--yes",
        "--set",
        "election.use=postgres",
        "--set",
        "election.postgres.dsn=postgres://nobody@localhost/none",
    )
    assert isinstance(result.exception, ConfigError)
    assert "slotreeve election accept" in str(result.exception)


@pytest.mark.processes
@pytest.mark.timeout(200)
def test_a_cluster_that_has_lost_two_of_three_directories_goes_on_and_no_registration_is_lost(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with under_load(cluster) as transport:
            await slotreeve(cluster, "provide", "put", "limits.rate", "100")
            await slotreeve(cluster, "admin", "client-off", "10.0.0.9")
            metas = list(cluster.meta_addresses.values())
            before, view = await configuration(cluster), await cluster_view(transport, cluster.name, metas)
            old = await leader(cluster, transport)
            state = {name: tmp_path / "cluster" / f"{name}.state" for name in cluster.meta_addresses}
            survivor, late, lost = sorted(state, key=lambda name: name == old.leader)

            for name in (late, lost):
                cluster.servers[name].kill()
            shutil.copytree(state[late], tmp_path / "late")
            for name in (late, lost):
                shutil.rmtree(state[name])
            in_use = await asyncio.to_thread(forced, state[survivor], "--yes")
            assert "stop its meta server" in str(in_use.exception)
            cluster.servers[survivor].kill()
            done = await asyncio.to_thread(forced, state[survivor], "--yes", "-o", "json")
            assert done.exit_code == 0, done.output
            (row,) = json.loads(done.stdout)
            assert row["accepted epoch"] >= old.term
            shutil.copytree(state[survivor], state[lost])
            for name in (survivor, lost):
                cluster.servers[name].start()
            new = await leader(cluster, transport)
            assert new.term > old.term + SKIPPED_EPOCHS
            await cluster.ready(transport)
            assert await configuration(cluster) == before
            assert (await cluster_view(transport, cluster.name, metas)).table == view.table

            shutil.copytree(tmp_path / "late", state[late])  # an old member comes back
            cluster.servers[late].start()
            await asyncio.to_thread(wait_for_line, cluster.servers[late].log, "from before slotreeve election force")
            await slotreeve(cluster, "provide", "put", "limits.rate", "200")
            assert (await leader(cluster, transport)).term == new.term
            assert (await cluster_leader(transport, cluster.name, [cluster.meta_addresses[late]])).leader is None
            cluster.servers[late].kill()
            shutil.rmtree(state[late])
            cluster.servers[late].start()  # with an empty directory, as its message says
            other = survivor if new.leader == lost else lost
            await leader(cluster, transport, cluster.meta_addresses[late])
            cluster.servers[other].kill()
            await slotreeve(cluster, "provide", "put", "limits.rate", "300")  # it counts
            cluster.servers["data-1"].kill()
            cluster.servers["data-1"].start()
            await cluster.ready(transport)

    with LocalCluster(tmp_path / "cluster", ClusterSize(meta=3, data=3, session=2)) as cluster:
        asyncio.run(main(cluster))


def wait_for_line(log: Path, text: str) -> None:
    until = time.monotonic() + 20
    while text not in log.read_text():
        assert time.monotonic() < until, log.read_text()[-2000:]
        time.sleep(0.1)
