"""The manifests: by the schemas of Kubernetes, and every name in them is that of something."""

from __future__ import annotations

import copy
import importlib.util
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
from slotreeve.model.nodes import Role
from slotreeve_servers.launch import HTTP_PORT_OFFSET, ROLE_PORTS
from slotreeve_servers.meta.members.addresses import ELECTION_PORT_OFFSET

from tests.deploy.dockerfiles import parsed
from tests.deploy.manifests import Manifest, files_of, made_by_the_page, of_kind, operator, pods, rendered

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
VERSIONS = ("1.29", "1.34")
ROLES = {"meta", "data", "session", "gateway"}
OVERLAYS = {
    "base": {"meta": 3, "data": 3, "session": 2, "gateway": 2},
    "small": {"meta": 1, "data": 2, "session": 1, "gateway": 1},
}


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def objects(overlay: str) -> list[Manifest]:
    return rendered(overlay)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return made_by_the_page(tmp_path_factory.mktemp("page"))


def labels_fit(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return bool(selector) and selector.items() <= labels.items()


def template(stateful_set: Manifest) -> Manifest:
    found = stateful_set["spec"]["template"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes_take_every_object(objects: list[Manifest], version: str) -> None:
    for each in [*objects, operator()]:
        kubernetes_validate.validate(each, version, strict=True)
    wrong = copy.deepcopy(of_kind(objects, "StatefulSet")["data"])
    template(wrong)["spec"]["terminationGraceSeconds"] = 5
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_sets_are_of_the_size_that_the_configuration_names(overlay: str, objects: list[Manifest]) -> None:
    sets = of_kind(objects, "StatefulSet")
    assert {name: each["spec"]["replicas"] for name, each in sets.items()} == OVERLAYS[overlay]
    (config,) = [each for name, each in of_kind(objects, "ConfigMap").items() if name.startswith("slotreeve-config-")]
    settings = tomllib.loads(config["data"]["slotreeve.toml"])
    names = {pod.name for pod in pods(objects)}
    of_meta = {name for name in names if name.startswith("meta-")}
    assert settings["cluster"]["meta"] == {name: f"{name}.meta:7710" for name in of_meta}
    sessions = {f"{name}@{name}.session:7730" for name in names if name.startswith("session-")}
    assert set(settings["gateway"]["sessions"]) == sessions


def test_services_budgets_and_policies_select_pods_that_are_there(objects: list[Manifest]) -> None:
    labels = {name: template(each)["metadata"]["labels"] for name, each in of_kind(objects, "StatefulSet").items()}
    ports = {
        name: {port["name"]: port["containerPort"] for port in template(each)["spec"]["containers"][0]["ports"]}
        for name, each in of_kind(objects, "StatefulSet").items()
    }
    for name, each in of_kind(objects, "StatefulSet").items():
        assert labels_fit(each["spec"]["selector"]["matchLabels"], labels[name])
        service = of_kind(objects, "Service")[each["spec"]["serviceName"]]
        assert service["spec"]["clusterIP"] == "None"
        assert labels_fit(service["spec"]["selector"], labels[name])
        for spread in template(each)["spec"]["topologySpreadConstraints"]:
            assert labels_fit(spread["labelSelector"]["matchLabels"], labels[name])
        if name != "gateway":
            assert service["spec"]["publishNotReadyAddresses"] is True
    for name, service in of_kind(objects, "Service").items():
        (selected,) = [role for role in labels if labels_fit(service["spec"]["selector"], labels[role])]
        for port in service["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            assert target in {*ports[selected], *ports[selected].values()}, name
    for name, budget in of_kind(objects, "PodDisruptionBudget").items():
        assert [role for role in labels if labels_fit(budget["spec"]["selector"]["matchLabels"], labels[role])] == [
            name
        ]
        assert budget["spec"]["maxUnavailable"] == 1
    assert of_kind(objects, "PodDisruptionBudget").keys() == labels.keys() == ROLES
    for name, policy in of_kind(objects, "NetworkPolicy").items():
        selected_roles = [
            role for role in labels if labels_fit(policy["spec"]["podSelector"]["matchLabels"], labels[role])
        ]
        assert selected_roles, name
        for rule in policy["spec"].get("ingress", []):
            for port in rule["ports"]:
                assert any(port["port"] in {*ports[role], *ports[role].values()} for role in selected_roles), (
                    name,
                    port,
                )


def test_what_is_mounted_is_rendered_or_made_by_the_page(objects: list[Manifest], made: list[Manifest]) -> None:
    there = {(each["kind"], each["metadata"]["name"]): each for each in [*objects, *made]}
    assert all(each["metadata"]["namespace"] == "slotreeve" for each in made)
    sets = of_kind(objects, "StatefulSet")
    for spec, claims in [
        *((template(each)["spec"], each["spec"].get("volumeClaimTemplates", [])) for each in sets.values()),
        (operator()["spec"], []),
    ]:
        volumes = {each["name"]: each for each in spec["volumes"]} | {each["metadata"]["name"]: {} for each in claims}
        (container,) = spec["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            elif "secret" in volume:
                assert ("Secret", volume["secret"]["secretName"]) in there
                assert volume["secret"]["defaultMode"] == 0o440
        assert ("ServiceAccount", spec["serviceAccountName"]) in there
    for pod in pods(objects):
        assert f"{pod.name}.toml" in files_of(there["Secret", f"{pod.role}-keys"])
        places = {mount["mountPath"] for mount in pod.container["volumeMounts"]}
        for value in pod.variables.values():
            if value.startswith("/"):
                assert any(value == place or value.startswith(f"{place}/") for place in places), value


def test_ports_and_probes_are_those_of_the_roles(objects: list[Manifest]) -> None:
    for pod in pods(objects):
        port = ROLE_PORTS[Role(pod.role)]
        ports = {each["name"]: each["containerPort"] for each in pod.container["ports"]}
        assert ports.pop("health") == port + HTTP_PORT_OFFSET
        assert ports.pop("https" if pod.role == "gateway" else "cluster") == port
        assert ports == ({"election": port + ELECTION_PORT_OFFSET} if pod.role == "meta" else {})
        for probe, page in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            assert pod.container[probe]["httpGet"] == {"path": page, "port": "health"}
        listens = "SLOTREEVE__GATEWAY__LISTEN" if pod.role == "gateway" else "SLOTREEVE__NODE__BIND"
        assert pod.variables[listens] == f"0.0.0.0:{port}"
        if pod.role in ("data", "session"):
            assert pod.variables["SLOTREEVE__NODE__ADVERTISE"] == f"{pod.name}.{pod.role}.slotreeve.svc:{port}"


def test_a_pod_has_as_long_to_end_as_its_server_needs(objects: list[Manifest]) -> None:
    spec = importlib.util.spec_from_file_location("make_deploy", ROOT / "deploy/make_deploy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for pod in pods(objects):
        hook = pod.container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
        assert pod.spec["terminationGracePeriodSeconds"] == module.STOP_SECONDS[pod.role] + int(hook[1])
    for each in of_kind(objects, "StatefulSet").values():
        assert each["spec"]["podManagementPolicy"] == "Parallel"  # the first election waits for all meta servers


def test_no_pod_has_rights(objects: list[Manifest]) -> None:
    final = parsed((ROOT / "deploy/image/Dockerfile").read_text(encoding="utf-8"))[1][-1]
    uid, _, gid = final.last("USER").text.partition(":")
    for spec in [*(pod.spec for pod in pods(objects)), operator()["spec"]]:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (int(uid), int(gid))
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert container["resources"]["limits"].keys() == {"memory"}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["image"] == "slotreeve:local"
    (namespace,) = of_kind(objects, "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
