"""The Kubernetes manifests below ``deploy/kubernetes``, as ``kubectl`` renders them."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.pages import commands
from tests.faces.programs import program

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/kubernetes"
ZONE = "metadata.labels['topology.kubernetes.io/zone']"
"""A label that newer versions of Kubernetes copy from the node; where it lacks, the variable is empty."""
Manifest = dict[str, Any]


def kubectl(*arguments: str, directory: Path = ROOT) -> list[Manifest]:
    """The objects that it prints."""
    done = subprocess.run(
        [program("kubectl"), *arguments], capture_output=True, text=True, check=False, cwd=directory, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def rendered(overlay: str) -> list[Manifest]:
    """All objects of ``base`` or ``small``."""
    return kubectl("kustomize", str(FOLDER / overlay))


def operator() -> Manifest:
    """The pod for operators."""
    (pod,) = [each for each in yaml.safe_load_all((FOLDER / "operator.yaml").read_text(encoding="utf-8")) if each]
    assert isinstance(pod, dict)
    return pod


def of_kind(objects: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """Those of one kind by name."""
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def made_by_the_page(directory: Path) -> list[Manifest]:
    """Keys and a certificate by the page's commands, in ``directory``, and the ConfigMaps and Secrets of them."""
    found = []
    for line in commands("Kubernetes"):
        if line.startswith("kubectl -n slotreeve create"):
            words = line.removeprefix("kubectl ").split()
            found += kubectl(*words, "--dry-run=client", "--output=yaml", directory=directory)
        elif not line.startswith("kubectl"):
            done = subprocess.run(["sh", "-ec", line], cwd=directory, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}: {done.stderr}"
    return found


def files_of(each: Manifest) -> dict[str, bytes]:
    """What a ConfigMap or a Secret holds, by the names of files."""
    if each["kind"] == "ConfigMap":
        return {name: text.encode() for name, text in each["data"].items()}
    return {name: base64.b64decode(text) for name, text in each["data"].items()}


@dataclass(frozen=True)
class PodOfManifest:
    """One pod with its one container, its variables put in."""

    name: str
    role: str
    spec: Mapping[str, Any]
    namespace: str = "slotreeve"

    @property
    def container(self) -> Mapping[str, Any]:
        """The one."""
        (only,) = self.spec["containers"]
        assert isinstance(only, dict)
        return only

    @property
    def variables(self) -> dict[str, str]:
        """Its variables."""
        found: dict[str, str] = {}
        fields = {"metadata.name": self.name, "metadata.namespace": self.namespace, ZONE: ""}
        for each in self.container["env"]:
            if "value" in each:
                found[each["name"]] = expanded(each["value"], found)
            else:
                found[each["name"]] = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        return found

    @property
    def arguments(self) -> list[str]:
        """Its words after the entry point."""
        return [expanded(word, self.variables) for word in self.container.get("args", [])]

    def mounts(self, sources: Mapping[tuple[str, str], Path], writable: Path) -> dict[str, Path]:
        """Files and directories by their place. ``sources``: directories of ConfigMaps and Secrets by kind and name."""
        volumes = {each["name"]: each for each in self.spec.get("volumes", [])}
        found = {}
        for mount in self.container["volumeMounts"]:
            volume = volumes.get(mount["name"], {"claim": mount["name"]})  # else a claim of the template
            if "configMap" in volume:
                place = sources["ConfigMap", volume["configMap"]["name"]]
            elif "secret" in volume:
                place = sources["Secret", volume["secret"]["secretName"]]
            else:
                place = writable
            if "subPathExpr" in mount:
                place = place / expanded(mount["subPathExpr"], self.variables)
                assert place.is_file(), f"{self.name}: {place.name} is not in {volume}"
            found[mount["mountPath"]] = place
        return found


def expanded(text: object, variables: Mapping[str, str]) -> str:
    """``$(NAME)`` of the variables that stand before."""
    given = str(text)
    for name, value in variables.items():
        given = given.replace(f"$({name})", value)
    assert "$(" not in given, given
    return given


def pods(objects: Sequence[Manifest]) -> list[PodOfManifest]:
    """Every pod of the StatefulSets."""
    return [
        PodOfManifest(f"{name}-{number}", name, each["spec"]["template"]["spec"])
        for name, each in of_kind(objects, "StatefulSet").items()
        for number in range(each["spec"]["replicas"])
    ]
