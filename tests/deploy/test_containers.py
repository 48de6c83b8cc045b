"""Dockerfile, compose file, Kubernetes manifests: their commands, variables, paths, ports and times are ours.

Images are not built here. What is checked is what would break them: a flag that is gone, a file that moved, a
port that nobody listens on, a drain that is cut short, a password that everybody has.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import AuthenticationError
from redis.retry import Retry

from redrive.core.settings import WorkerSettings
from tests.deploy.files import DEPLOY, ROOT, check_command, check_variable, document, documents, text
from tests.servers import free_port, give_up

DRAIN_S = WorkerSettings().drain_s + WorkerSettings().lease_s
COMPOSE = document("compose.yaml")
SERVICES = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "redrive"}
MANIFESTS = documents("kubernetes/redrive.yaml")
DEPLOYMENTS = {one["metadata"]["name"]: one for one in MANIFESTS if one["kind"] == "Deployment"}


def instructions(word: str) -> list[str]:
    joined = text("Dockerfile").replace("\\\n", " ")
    return [line.split(" ", 1)[1] for line in joined.splitlines() if line.startswith(f"{word} ")]


def pod(deployment: str) -> Any:
    return DEPLOYMENTS[deployment]["spec"]["template"]["spec"]


def container(deployment: str) -> Any:
    (one,) = pod(deployment)["containers"]
    return one


def seconds(duration: str) -> float:
    assert duration.endswith("s")
    return float(duration[:-1])


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignored = text("Dockerfile.dockerignore").splitlines()
    for line in instructions("COPY"):
        if line.startswith("--from="):
            continue
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored


def test_the_image_runs_a_command_of_ours_as_nobody_in_particular() -> None:
    (entry,), (command,) = map(instructions, ("ENTRYPOINT", "CMD"))
    assert json.loads(entry) == ["redrive"]
    check_command(json.loads(command))
    assert instructions("USER") == ["10001:10001"]
    assert instructions("FROM")[-1] == instructions("FROM")[0].removesuffix(" AS build")
    for name in re.findall(r"\b(REDRIVE_\w+)=", text("Dockerfile")):
        check_variable(name)


def test_the_extras_of_the_image_exist() -> None:
    (extras,) = (line.split("=")[1].split(",") for line in instructions("ARG") if line.startswith("EXTRAS="))
    known = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.M)
    assert set(extras) <= set(known)


def test_what_the_image_copies_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for line in instructions("COPY"):
        *names, target = line.split()
        for name in names if not line.startswith("--from=") else ():
            place = source / target / (Path(name).name if target.endswith("/") else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-r", ROOT / name, place], check=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"redrive/cli/top.py", "redrive/documentation/monitoring.md"} <= set(names)


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_of_ours_with_variables_that_are_read(name: str) -> None:
    check_command(OURS[name]["command"])
    for variable in OURS[name]["environment"]:
        check_variable(variable)


@pytest.mark.parametrize("name", OURS)
def test_a_service_may_drain_and_nothing_more(name: str) -> None:
    service = OURS[name]
    assert seconds(service["stop_grace_period"]) > DRAIN_S
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_the_profiles_are_those_that_are_promised_and_each_stands_alone() -> None:
    profiles = {profile for one in SERVICES.values() for profile in one["profiles"]}
    assert profiles == {"sqlite", "redis", "rabbitmq"}
    for one in SERVICES.values():
        for other in one.get("depends_on", ()):
            assert SERVICES[other]["profiles"] == one["profiles"]


def test_files_that_are_mounted_exist_and_ports_stay_on_this_machine() -> None:
    for one in SERVICES.values():
        for volume in one.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), source
        for port in one.get("ports", ()):
            assert port.startswith("127.0.0.1:")


def test_no_file_has_a_password_of_its_own() -> None:
    for path in (*DEPLOY.glob("compose.yaml"), *DEPLOY.rglob("kubernetes/*"), *DEPLOY.rglob("systemd/*")):
        given = re.findall(r"(?i)password\w*: +(?!\$\{|\{\})(\S+)", path.read_text())
        assert given == [], path
    assert "${REDIS_PASSWORD:?" in text("compose.yaml")
    assert not any(one["kind"] == "Secret" for one in MANIFESTS)


def test_redis_starts_with_the_shipped_settings_and_asks_for_the_password(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None:
        give_up("redis-server is not installed: apt-get install redis-server")
    port = free_port()
    program, flag, script = SERVICES["redis"]["command"]
    own = f"bind 127.0.0.1\\nport {port}\\ndir {tmp_path}"
    for before, after in (
        ("$$", "$"),
        ("/etc/redis.conf", str(DEPLOY / "redis.conf")),
        ("/tmp/redis.conf", str(tmp_path / "redis.conf")),  # noqa: S108 - the container's own
        ("bind * -::*", own),
    ):
        assert before in script
        script = script.replace(before, after)
    environment = {**os.environ, "REDIS_PASSWORD": "of-this-test"}
    with subprocess.Popen([program, flag, script], env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            client = Redis(port=port, password="of-this-test", retry=Retry(ConstantBackoff(0.05), 200))  # noqa: S106
            assert client.ping()
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            with pytest.raises(AuthenticationError):
                Redis(port=port).ping()
            client.close()
        finally:
            server.terminate()
        assert server.wait(20) == 0


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_runs_a_command_of_ours_with_variables_that_are_read(name: str) -> None:
    check_command(container(name)["args"])
    for variable in container(name)["env"]:
        check_variable(variable["name"])
    store = next(one for one in container(name)["env"] if one["name"] == "REDRIVE_STORE")
    assert "secretKeyRef" in store["valueFrom"]


def test_probes_ask_for_routes_on_ports_that_are_listened_on() -> None:
    routes = {"redrive-api": {"/health/live", "/health/ready"}, "redrive-worker": {"/health/ready"}}
    for name, known in routes.items():
        one = container(name)
        probes = [one[key]["httpGet"] for key in one if key.endswith("Probe")]
        assert {probe["path"] for probe in probes} <= known
        (port,) = one["ports"]
        assert {probe["port"] for probe in probes} == {port["name"]}
        listened = [*one["args"], *(str(each.get("value")) for each in one["env"])]
        assert any(word.endswith(f":{port['containerPort']}") for word in listened)


def test_a_pod_is_not_killed_before_it_has_drained() -> None:
    assert pod("redrive-worker")["terminationGracePeriodSeconds"] > DRAIN_S
    api = pod("redrive-api")
    pause_s = float(container("redrive-api")["lifecycle"]["preStop"]["exec"]["command"][1])
    assert api["terminationGracePeriodSeconds"] >= pause_s + 30


def test_pods_run_as_the_user_of_the_image_and_own_nothing_else() -> None:
    for name in DEPLOYMENTS:
        assert pod(name)["securityContext"]["runAsUser"] == int(instructions("USER")[0].split(":")[0])
        assert container(name)["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_settings_of_the_cluster_can_be_read(tmp_path: Path) -> None:
    (config,) = (one for one in MANIFESTS if one["kind"] == "ConfigMap")
    file = tmp_path / "redrive.toml"
    file.write_text(config["data"]["redrive.toml"])
    command = [sys.executable, "-m", "redrive", "config", "show", "--config", str(file), "--json"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr


def test_selectors_choose_what_they_are_meant_for() -> None:
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in DEPLOYMENTS.items()}
    for one in MANIFESTS:
        spec = one.get("spec", {})
        chosen = spec.get("podSelector") or spec.get("selector") or {}
        wanted = chosen.get("matchLabels", chosen)
        if wanted:
            assert [name for name, has in labels.items() if wanted.items() <= has.items()] == [
                one["metadata"]["name"]
            ]
