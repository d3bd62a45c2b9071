"""Tests for the files in deploy/: Ray Serve, KubeRay and Prometheus accept them."""

from __future__ import annotations

import json
import os
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from runtime.cluster.view import summed
from runtime.request import EngineLoad
from runtime.server.metrics import ServerMetrics
from runtime.settings import Settings

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
SCHEMA = Path(__file__).with_name("rayservice_schema.json")  # Schema with the used fields of KubeRay 1.5.


def manifest() -> dict[str, Any]:
    return next(yaml.safe_load_all((DEPLOY / "rayservice.yaml").read_text(encoding="utf-8")))


def serve_configs() -> list[dict[str, Any]]:
    file = yaml.safe_load((DEPLOY / "serve.yaml").read_text(encoding="utf-8"))
    return [file, yaml.safe_load(manifest()["spec"]["serveConfigV2"])]


def test_manifest_is_a_ray_service() -> None:
    schema = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [error.message for error in schema.iter_errors(manifest())] == []
    wrong = deepcopy(manifest())
    wrong["spec"]["rayClusterConfig"]["headGroupSpec"]["rayStartParams"]["num-gpus"] = 0
    wrong["spec"]["serveConfig"] = ""
    assert len(list(schema.iter_errors(wrong))) == 2, "a number where KubeRay wants a word, and a field that it has not"


@pytest.mark.skipif("VOICEWRIGHT_RAYSERVICE_CRD" not in os.environ, reason="names KubeRay's ray.io_rayservices.yaml")
def test_manifest_matches_the_kuberay_schema() -> None:
    crd = yaml.safe_load(Path(os.environ["VOICEWRIGHT_RAYSERVICE_CRD"]).read_text(encoding="utf-8"))
    (schema,) = (v["schema"]["openAPIV3Schema"] for v in crd["spec"]["versions"] if v["name"] == "v1")
    _close(schema)
    schema["properties"]["metadata"] = {"type": "object"}
    assert [error.message for error in Draft202012Validator(schema).iter_errors(manifest())] == []


def test_kuberay_service_routes_to_the_public_port_of_the_head() -> None:
    spec = manifest()["spec"]
    (head,) = spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"]
    named = {port["name"]: port["containerPort"] for port in head["ports"]}
    (config,) = yaml.safe_load(spec["serveConfigV2"])["applications"]
    settings = Settings.from_env(config["args"]["environment"])
    # KubeRay checks the health of the head node at the port "serve", and creates a Service only if it exists.
    assert named["serve"] == settings.server.port
    (port,) = spec["serveService"]["spec"]["ports"]
    assert (port["name"], port["targetPort"]) == ("serve", settings.server.port)
    (wanted,) = config["args"]["ingress_resources"]
    assert wanted in spec["rayClusterConfig"]["headGroupSpec"]["rayStartParams"]["resources"]


def test_environment_of_the_configurations_contains_only_known_settings() -> None:
    known = set(re.findall(r'"(VOICEWRIGHT_[A-Z_]+)"', Path("runtime/settings.py").read_text(encoding="utf-8")))
    for config in serve_configs():
        (application,) = config["applications"]
        environment = application["args"]["environment"]
        assert set(environment) <= known
        assert Settings.from_env(environment).server.port == 8210


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray warns about its own models.
def test_ray_serve_accepts_the_configurations() -> None:
    pytest.importorskip("ray", reason="the extra cluster is not installed")
    from ray.serve._private.api import call_user_app_builder_with_args_if_necessary as built_by_serve
    from ray.serve.schema import ServeDeploySchema

    from runtime.cluster.app import build
    from runtime.cluster.arguments import Arguments

    for config in serve_configs():
        checked = ServeDeploySchema.model_validate(config)
        (application,) = checked.applications
        arguments = Arguments.model_validate(application.args)
        assert application.import_path == f"{build.__module__}:build"
        assert built_by_serve(build, application.args) is not None
        assert all(pool.gpus == 1 for pool in arguments.pools.values())


def test_dashboard_queries_only_existing_metrics() -> None:
    metrics = ServerMetrics()
    load = EngineLoad(slots=4, active=0, waiting=0)
    page = summed({"a": metrics.format_page(load).decode()}).decode()
    known = set(re.findall(r"^# TYPE (\S+)", page, re.M))
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"voicewright_\w+", target["expr"])
    }
    assert len(asked) > 10
    # A sum exists only if a replica has a sample, so its name is compared with the names of its summands.
    summands = {name.removesuffix("_bucket").replace("voicewright_cluster_", "voicewright_") for name in asked}
    assert summands - {"voicewright_replicas"} <= known
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def _close(schema: Any) -> None:
    """Add additionalProperties: false to each object in a schema.

    The Kubernetes API server drops fields that are not in the schema.
    """
    if isinstance(schema, list):
        for item in schema:
            _close(item)
    elif isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        if schema.get("x-kubernetes-int-or-string"):
            schema.pop("type", None)
        for item in list(schema.values()):
            _close(item)
