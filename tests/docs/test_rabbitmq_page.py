"""docs/rabbitmq.md: its commands work on a broker in the order they stand there, its topology is one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from redrive.brokers.rabbitmq.design import QueueDesign
from redrive.brokers.rabbitmq.design_file import parse_design
from redrive.cli import run
from tests.brokers.server import RabbitServer

PAGE = (Path(__file__).parents[2] / "docs/rabbitmq.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


TOPOLOGY = next(block for block in blocks("toml") if "[exchanges]" in block)


def test_every_command_works_in_the_order_of_the_page(
    rabbitmq: RabbitServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRIVE_STORE", rabbitmq.virtual_host("documentation"))
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("redrive ")]
    assert len(commands) == 5
    for command in commands:
        words = shlex.split(command.replace("http://localhost:15672", rabbitmq.management_url))
        assert run(words[1:]) == 0, (command, capsys.readouterr().err)


def test_the_page_has_every_key_of_a_queue_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    fields = set(QueueDesign.__struct_fields__) - {"name"}
    assert set(rows) >= fields
    queue = parse_design(TOPOLOGY, "page").queues[0]
    assert rows["type"] == f'`"{queue.type.value}"`'
    assert rows["retry"] == f'`"{queue.retry.value}"`'
    assert rows["retry_ttl_s"] == f"{queue.retry_ttl_s:g}"
    assert rows["steps_s"] == ", ".join(f"{step:g}" for step in queue.steps_s)
