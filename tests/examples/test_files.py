"""examples/files: its page is played on a real broker, and nobody but the queue that failed sees a retry."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.server import RabbitServer
from tests.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples/files"
COMMAND = [sys.executable, "-m", "redrive"]
WAIT_S = 60.0


class Play:
    """The example's folder, copied, and its commands."""

    def __init__(self, folder: Path, broker: str) -> None:
        self.folder = folder
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("seen", "redrive.db*", "__pycache__"))
        file = folder / "topology.toml"
        file.write_text(file.read_text().replace("retry_ttl_s = 15", "retry_ttl_s = 0.3"))
        others = {name: text for name, text in os.environ.items() if not name.startswith("REDRIVE_")}
        self.environment = {**others, "REDRIVE_STORE": broker}

    def run(self, line: str) -> str:
        """A command of the page, as a shell would run it."""
        words = shlex.split(line)
        command = [*COMMAND, *words[1:]] if words[0] == "redrive" else words
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def document(self, line: str) -> Any:
        return json.loads(self.run(f"{line} --json"))

    @contextmanager
    def working(self, line: str) -> Iterator[None]:
        with (self.folder / "worker.log").open("w") as log:
            command = [*COMMAND, *shlex.split(line)[1:]]
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(timeout=60) == 0, (self.folder / "worker.log").read_text()

    def seen(self, queue: str) -> Counter[str]:
        """How often each routing key arrived at a queue."""
        file = self.folder / "seen" / f"{queue}.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return Counter(json.loads(line)["key"] for line in lines)


def page() -> list[str]:
    """The commands of the page, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (EXAMPLE / "README.md").read_text("utf-8"), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.timeout(300)
async def test_the_page_is_played_and_a_retry_of_one_queue_reaches_no_other(
    rabbitmq: RabbitServer, tmp_path: Path
) -> None:
    play = Play(tmp_path / "files", rabbitmq.virtual_host("files"))
    plan, apply, touch, worker, send, *looks, remove, redrive, status = page()
    for line in (plan, apply, touch):
        play.run(line)
    with play.working(worker):
        play.run(send)
        await wait_until(lambda: _letters(play) == ["q.validator"], WAIT_S, "there is a dead letter")
        assert play.seen("q.validator") == {"files.uploaded.pdf": 3}
        assert [play.run(line).count("virus scanner") for line in looks] == [1, 1]
        play.run(remove)
        play.run(redrive)
        await wait_until(lambda: play.seen("q.notification").total() == 2, WAIT_S, "the file is processed")
        await wait_until(lambda: play.seen("q.audit").total() == 4, WAIT_S, "the audit has all events")
        await wait_until(
            lambda: play.seen("q.projection").total() == 4, WAIT_S, "the projection has all events"
        )
        assert "q.validator" in play.run(status)
        assert _letters(play) == []
    once = dict.fromkeys(
        ("files.uploaded.pdf", "files.validated.pdf", "processing.thumbnail.pdf", "processing.text.pdf"), 1
    )
    assert play.seen("q.audit") == play.seen("q.projection") == once
    assert play.seen("q.validator") == {"files.uploaded.pdf": 4}
    assert play.seen("q.thumbnail") == play.seen("q.extractor") == {"files.validated.pdf": 1}
    assert play.seen("q.upload.commands") == {"commands.upload.pdf": 1}


def _letters(play: Play) -> list[str]:
    return [one["queue"] for one in play.document("redrive dlq list")["letters"]]
