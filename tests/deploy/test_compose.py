"""The Compose file: one cluster, whose servers find each other and their files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.deploy.compose_files import compose, services
from tests.deploy.pages import commands

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("meta", "data", "session", "gateway")


def test_it_is_three_meta_three_data_two_session_servers_and_a_gateway() -> None:
    commands_of = {name: service.command for name, service in services().items() if name != "operator"}
    assert commands_of == {
        f"{role}-{number}": [role, "run", "--name", f"{role}-{number}"]
        for role, count in zip(ROLES, (3, 3, 2, 1), strict=True)
        for number in range(1, count + 1)
    }


def test_config_init_of_the_page_makes_what_is_mounted() -> None:
    (line,) = [line for line in commands("Compose") if "config init" in line]
    made = {host for word in line.split() if "=" in word and word.partition("=")[2] for host in [word.split("=")[1]]}
    for name, service in services().items():
        place = service.mounts["/etc/slotreeve"]
        assert place == f"./cluster/{name}"
        assert name in made | {"operator"}
        assert service.env_files == ([] if name == "operator" else [f"./cluster/{name}/{name}.env"])


def test_each_server_has_a_volume_of_its_own_and_its_role_s_time_to_stop() -> None:
    spec = importlib.util.spec_from_file_location("make_deploy", ROOT / "deploy/make_deploy.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    named = set(compose()["volumes"])
    for name, service in services().items():
        if name != "operator":
            assert service.mounts["/var/lib/slotreeve"] == name
            assert service.stop_seconds == made.STOP_SECONDS[service.command[0]]
            named.remove(name)
    assert not named


def test_no_server_has_rights_and_only_the_gateway_has_a_port_on_loopback() -> None:
    for name, service in services().items():
        raw = service.raw
        assert raw["read_only"] is True
        assert raw["cap_drop"] == ["ALL"]
        assert raw["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in raw
        assert "user" not in raw
        assert raw["image"] == "${SLOTREEVE_IMAGE:-slotreeve:local}"
        assert list(service.ports) == (["127.0.0.1:7740:7740"] if name == "gateway-1" else [])
