"""deploy/rabbitmq: the files that a compose file mounts do on a real broker what they say."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from redrive.brokers.rabbitmq.definitions import definitions
from redrive.brokers.rabbitmq.design_file import read_design
from redrive.cli import run
from tests.brokers.server import RabbitServer, start_rabbitmq
from tests.servers import free_port

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/rabbitmq"
TOPOLOGY = ROOT / "examples/files/topology.toml"


def run_import(api: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "RABBITMQ_API": api, "PATIENCE": "1", **more}
    script = str(FOLDER / "import-definitions.sh")
    return subprocess.run([script], env=environment, capture_output=True, text=True, timeout=90, check=False)


def test_definitions_json_is_what_the_command_prints_of_the_example() -> None:
    """Write it again: redrive rabbitmq topology definitions --topology examples/files/topology.toml"""
    assert json.loads((FOLDER / "definitions.json").read_text()) == definitions(
        read_design(TOPOLOGY).topology(), "/"
    )


def test_the_import_leaves_a_fresh_broker_as_the_topology_says_and_may_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_rabbitmq(
        tmp_path, management=True, more=(FOLDER / "rabbitmq.conf").read_text().replace("2GB", "1MB")
    )
    try:
        for _ in range(2):
            done = run_import(f"http://127.0.0.1:{server.management_port}", PATIENCE="60")
            assert done.returncode == 0, done.stderr
        flags = ("--topology", str(TOPOLOGY), "--store", server.url, "--management", server.management_url)
        assert run(["rabbitmq", "topology", "diff", *flags]) == 0, capsys.readouterr().out
    finally:
        server.kill()
        server.stop()


def test_a_wrong_password_and_a_broker_that_is_not_there_are_named_without_the_password(
    rabbitmq: RabbitServer,
) -> None:
    for port in (rabbitmq.management_port, free_port()):
        done = run_import(f"http://127.0.0.1:{port}", RABBITMQ_PASSWORD="hunter2")  # noqa: S106 - not ours
        assert done.returncode == 1
        assert "does not answer, or refuses this user" in done.stderr
        assert "hunter2" not in done.stderr + done.stdout
