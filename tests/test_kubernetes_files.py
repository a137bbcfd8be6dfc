"""The Kubernetes manifests agree with each other, with the container and with the settings of the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rolin.service.routes import ENDPOINTS
from rolin.service.settings import SETTINGS, read_settings

DEPLOY = Path(__file__).parent.parent / "deploy"
LABELS = {"app.kubernetes.io/name": "rolin"}


def manifest(name: str) -> dict[str, Any]:
    """Return a manifest."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / name).read_text())
    return found


def pod() -> dict[str, Any]:
    """Return what a pod runs."""
    found: dict[str, Any] = manifest("deployment.yaml")["spec"]["template"]["spec"]
    return found


def test_all_files_are_used_or_examples() -> None:
    """The kustomization names every manifest that is not an example."""
    files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    plain = {name for name in files if not name.endswith(".example.yaml")} - {"kustomization.yaml"}
    assert set(manifest("kustomization.yaml")["resources"]) == plain
    assert files - plain == {"kustomization.yaml", "secret.example.yaml", "ingress.example.yaml"}


def test_objects_find_each_other() -> None:
    """Selectors select the pods, and names and ports that are referred to exist."""
    deployment = manifest("deployment.yaml")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["metadata"]["labels"] == LABELS
    assert deployment["spec"]["selector"]["matchLabels"] == LABELS
    assert pod()["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == LABELS
    service = manifest("service.yaml")
    assert service["spec"]["selector"] == LABELS
    (port,) = service["spec"]["ports"]
    (container,) = pod()["containers"]
    assert port["targetPort"] in {each["name"] for each in container["ports"]}
    assert manifest("disruption.yaml")["spec"]["selector"]["matchLabels"] == LABELS
    (rule,) = manifest("ingress.example.yaml")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {
        "name": service["metadata"]["name"],
        "port": {"name": port["name"]},
    }
    volumes = {volume["name"] for volume in pod()["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_settings_and_secrets() -> None:
    """Variables are settings with valid values; secrets are in the Secret only, and the example has no key."""
    (container,) = pod()["containers"]
    plain = {each["name"]: each["value"] for each in container["env"]}
    secret = manifest("secret.example.yaml")
    assert container["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    hidden = {each.variable for each in SETTINGS if each.secret or each.address}
    assert set(secret["stringData"]) == hidden
    assert set(plain) <= {each.variable for each in SETTINGS} - hidden
    assert secret["stringData"]["ROLIN_API_KEY"] == ""
    keyed = {**plain, **secret["stringData"], "ROLIN_API_KEY": "x" * 16}
    settings = read_settings({}, keyed)
    assert [each["containerPort"] for each in container["ports"]] == [settings.port]
    assert [each["mountPath"] for each in container["volumeMounts"]] == [str(settings.data)]
    waits = float(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod()["terminationGracePeriodSeconds"] > waits + settings.drain_timeout


def test_probes_and_rights() -> None:
    """Probes ask paths that need no key, and the pod runs as the user of the container, without rights."""
    (container,) = pod()["containers"]
    open_paths = {each.path for each in ENDPOINTS if each.method == "GET" and each.scope is None}
    asked = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {name: probe["path"] for name, probe in asked.items()} == {
        "startupProbe": "/readyz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {probe["path"] for probe in asked.values()} <= open_paths
    assert {probe["port"] for probe in asked.values()} == {container["ports"][0]["name"]}
    assert (
        f"USER {pod()['securityContext']['runAsUser']}\n" in (DEPLOY / "Containerfile").read_text()
    )
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["automountServiceAccountToken"] is False
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
