"""docs/redis.md: its commands answer as they say on a store with some of everything; errors are explained."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redrive.core.store import WORKER_RECORDS
from redrive.stores.redis import RedisStore
from redrive.stores.redis.errors import EXPLAINED, PASSING
from tests.conformance import makers
from tests.programs import run
from tests.servers import RedisServer, start_redis
from tests.stores.redis_server import opened

PAGE = (Path(__file__).parents[2] / "docs/redis.md").read_text("utf-8")
PREFIX = "app:prod:outbox"


def commands() -> list[str]:
    """Every line of a shell block that runs our command or reads the server."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(("redis-cli ", "redrive "))]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A server with a dead letter, a retry, a lease, an audit row and a worker."""
    server = start_redis(tmp_path)
    async with opened(RedisStore(server.url, prefix=PREFIX)) as store:
        await makers.submit(store, 3)
        dead, retried, _ = await makers.take(store, 3)
        await makers.bury(store, dead)
        await makers.retry(store, retried, delay_s=600)
        await store.write_journal("audit", {"who": "ann"})
        worker = {"queues": ["orders"], "host": "web1", "pid": 7, "startedAt": store.now()}
        await store.put_record(WORKER_RECORDS, "w1", worker, expected=None, ttl_s=600)
    yield server
    server.stop()


def test_there_are_commands_to_read_with_and_to_change_with() -> None:
    assert sum(command.startswith("redis-cli ") for command in commands()) >= 8
    assert "redrive dlq redrive --queue orders --yes" in commands()


def test_no_documented_command_changes_the_server_behind_our_back() -> None:
    reading = {"SMEMBERS", "HGETALL", "ZCARD", "ZRANGE", "XRANGE", "MEMORY"}
    assert {one.split()[1] for one in commands() if one.startswith("redis-cli ")} <= reading


def test_every_documented_command_finds_what_it_says(server: RedisServer, tmp_path: Path) -> None:
    environment = {**os.environ, "REDRIVE_STORE": f"{server.url}?prefix={PREFIX}"}
    for command in commands():
        words = shlex.split(command)
        if words[0] == "redis-cli":
            words[1:1] = ["-p", str(server.port)]
            ended = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        else:
            ended = run(words, cwd=tmp_path, env=environment)
        assert ended.returncode == 0, (command, ended.stderr)
        assert ended.stdout.strip() not in ("", "0"), command
        assert not ended.stdout.startswith(("ERR", "WRONGTYPE")), command


def test_every_answer_of_the_server_that_is_explained_is_on_the_page() -> None:
    hidden = {"BUSY", "UNKILLABLE", "CROSSSLOT", "NOPROTO"}
    assert {word for word in (*PASSING, *EXPLAINED) if f"`{word}`" not in PAGE} <= hidden
