"""The container image as its Dockerfile says it: what a builder would be sent, and what the image promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from slotreeve_servers.launch import HTTP_PORT_OFFSET, ROLE_PORTS
from slotreeve_servers.meta.members.addresses import ELECTION_PORT_OFFSET
from slotreeve_servers.settings import load_settings

from tests.deploy.dockerfiles import Stage, allowed_in_context, parsed

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy/image/Dockerfile"
TEXT = FILE.read_text(encoding="utf-8")
SECRETS = re.compile(r"(?i)(password|passwd|secret|token|api_?key|private|dsn)")
TAG = re.compile(r"[a-z0-9./-]+:\d+\.\d+[a-z0-9.-]*(@sha256:[0-9a-f]{64})?")


def faults(text: str) -> set[str]:
    """What an operator or a cluster's rules would not take, in a Dockerfile."""
    arguments, stages = parsed(text)
    final = stages[-1]
    found = {f"{each.line}: ADD" for stage in stages for each in stage.all("ADD")}
    for stage in stages:
        base = re.sub(r"\$\{(\w+)\}", lambda name: arguments.get(name[1], ""), stage.base)
        if not TAG.fullmatch(base) and base not in {one.name for one in stages}:
            found.add(f"the base {base!r} has no version")
        found |= {f"ENV {name}" for name in stage.variables() if SECRETS.search(name)}
        found |= {f"ARG {each.text}" for each in stage.all("ARG") if SECRETS.search(each.text)}
        for each in stage.all("RUN"):
            if re.search(r"\b(sudo|curl|wget)\b|\|", each.text):
                found.add(f"{each.line}: RUN loads or pipes")
            if "apt-get install" in each.text and "rm -rf /var/lib/apt/lists" not in each.text:
                found.add(f"{each.line}: RUN leaves lists of packages")
        for each in stage.all("COPY"):
            if each.words[0] in (".", "./"):
                found.add(f"{each.line}: COPY of everything")
    for name in ("USER", "HEALTHCHECK", "ENTRYPOINT", "CMD", "STOPSIGNAL", "WORKDIR"):
        if not final.all(name):
            found.add(f"{name} is missing")
    found |= {f"{name} is no list" for name in ("ENTRYPOINT", "CMD") if any(_is_shell(final, name))}
    users = [each.text for each in final.all("USER")]
    if users and not re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", users[-1]):
        found.add(f"USER {users[-1]} is no number above 999")
    checks = [each.text for each in final.all("HEALTHCHECK")]
    if checks and not re.search(r"CMD \[.+\]$", checks[-1]):
        found.add("HEALTHCHECK is no list")
    return found


def _is_shell(stage: Stage, name: str) -> list[bool]:
    return [not each.text.startswith("[") for each in stage.all(name)]


def test_the_dockerfile_has_no_fault() -> None:
    assert faults(TEXT) == set()


@pytest.mark.parametrize(
    ("was", "becomes", "fault"),
    [
        ("python:3.11-slim-bookworm", "python:latest", "has no version"),
        ("USER 10730:10730", "USER slotreeve", "no number"),
        ("USER 10730:10730", "USER 0:0", "no number"),
        ("COPY constraints.txt", "ADD https://example.com/constraints.txt", "ADD"),
        ('CMD ["--help"]', "CMD --help", "CMD is no list"),
        ('CMD ["slotreeve", "health"]', "CMD slotreeve health", "HEALTHCHECK is no list"),
        ("PYTHONUNBUFFERED=1", "DB_PASSWORD=1", "ENV DB_PASSWORD"),
        ("ARG EXTRAS", "ARG INDEX_TOKEN", "ARG INDEX_TOKEN"),
        ("RUN python", "RUN curl https://example.com | python", "loads or pipes"),
        ("STOPSIGNAL SIGTERM\n", "", "STOPSIGNAL is missing"),
        ("COPY dist/slotreeve-*.whl", "COPY .", "everything"),
    ],
)
def test_a_planted_fault_is_found(was: str, becomes: str, fault: str) -> None:
    assert was in TEXT
    assert any(fault in found for found in faults(TEXT.replace(was, becomes)))


def test_everything_that_is_copied_is_sent_to_the_builder_and_nothing_secret_is() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    copied = [
        word
        for stage in parsed(TEXT)[1]
        for each in stage.all("COPY")
        if not each.words[0].startswith("--from=")
        for word in each.words[:-1]
    ]
    assert len(copied) == 4
    for source in copied:
        path = source.replace("*", "0.1.0-py3-none-any")
        assert allowed_in_context(ignored, path)
        assert "*" in source or (ROOT / source).is_file()
    for path in (".git/config", "keys/data-1.toml", ".venv/bin/python", "cluster/operator/env", "dist/notes.txt"):
        assert not allowed_in_context(ignored, path)


def test_the_ports_are_those_of_the_roles_and_the_end_is_the_orderly_one() -> None:
    final = parsed(TEXT)[1][-1]
    ports = {int(word) for each in final.all("EXPOSE") for word in each.words}
    assert ports == {
        *ROLE_PORTS.values(),
        *(port + HTTP_PORT_OFFSET for port in ROLE_PORTS.values()),
        min(ROLE_PORTS.values()) + ELECTION_PORT_OFFSET,
    }
    assert final.last("STOPSIGNAL").text == "SIGTERM"
    assert final.last("ENTRYPOINT").words == ["slotreeve"]


def test_the_configuration_of_the_image_keeps_everything_in_its_volume() -> None:
    final = parsed(TEXT)[1][-1]
    settings = load_settings(ROOT / "deploy/image/slotreeve.toml", {}, {}).settings
    (volume,) = final.last("VOLUME").words
    assert final.last("WORKDIR").text == volume
    assert Path(settings.history.directory).is_relative_to(volume)
    assert settings.http.enabled
    assert final.variables()["SLOTREEVE_CONFIG"] == "/etc/slotreeve/slotreeve.toml"
