"""`redrive worker --processes`: many processes that look like one worker, whatever happens to each."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from redrive import Redrive, Submission
from redrive.cli.processes import without_flag
from redrive.machine import children
from redrive.machine.children import STEADY_S, TRIES, Children, ChildrenFailed, Patience
from redrive.wiring import load
from tests.cli.conftest import Shop
from tests.cli.processes import ENVIRONMENT, finish, started
from tests.programs import Program
from tests.servers import reserved_port
from tests.waiting import wait_until

APP = """
import asyncio, os, signal
from pathlib import Path
from redrive import Redrive
app = Redrive()
@app.handler("orders", concurrency=20)
async def charge(order):
    await asyncio.sleep(0.01)
    if order == "fatal" and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
@app.handler("slow")
async def wait(order):
    Path("begun").touch()
    while not Path("go on").exists():
        await asyncio.sleep(0.01)
"""


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/redrive.db"
    return f"{request.getfixturevalue('redis_url')}?prefix=processes:{uuid.uuid4().hex[:12]}"


@pytest.fixture
def port() -> Iterator[int]:
    """One that nobody else is given."""
    with reserved_port() as reserved:
        yield reserved


class Lines:
    """What a command and its children write to standard error, as it comes."""

    def __init__(self, process: Program) -> None:
        assert process.stderr is not None
        self._lines: Iterator[str] = iter(process.stderr)

    def until(self, words: str) -> dict[str, Any]:
        for line in self._lines:
            if words in line:
                return dict(json.loads(line))
        raise AssertionError(f"it ended without {words!r}")


async def test_a_process_that_dies_is_started_again_and_nothing_is_lost(
    tmp_path: Path, store: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(APP)
    monkeypatch.setitem(ENVIRONMENT, "REDRIVE_WORKER_LEASE_S", "2")
    monkeypatch.setitem(ENVIRONMENT, "REDRIVE_METRICS", f"127.0.0.1:{port}")
    app = Redrive(settings=load({"store": store}, environ={}, folder=tmp_path))
    async with app, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

        async def ready() -> bool:
            return (await client.get("/health/ready")).status_code == 200

        async def done() -> bool:
            return [each.published for each in await app.store.queues() if each.queue == "orders"] == [201]

        with started(tmp_path, "worker", "shop:app", "--store", store, "--processes=2") as process:
            lines = Lines(process)
            await asyncio.to_thread(lines.until, "all 2 processes are up")
            assert await ready()
            payloads = [*range(100), "fatal", *range(100)]
            await app.submit_many("orders", [Submission(each) for each in payloads])
            told = await asyncio.to_thread(lines.until, "started again")
            assert "ended by SIGKILL" in told["message"]
            await asyncio.to_thread(lines.until, "Worker started")
            await wait_until(done, 60, "every message is done")
            await wait_until(ready, 60, "both processes are ready")
            metrics = (await client.get("/metrics")).text
            assert "redrive_worker_process_restarts_total 1\n" in metrics
            assert "redrive_worker_processes 2\n" in metrics
            assert 'redrive_messages_accepted_total{queue="orders"}' in metrics
            process.send_signal(signal.SIGTERM)
            out, _ = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0
        document = json.loads(out)
        assert (document["processes"], document["restarts"]) == (2, 1)


@pytest.mark.parametrize("signals", [1, 2])
def test_asked_to_end_they_drain_and_asked_twice_they_are_killed(shop: Shop, signals: int) -> None:
    (shop.folder / "shop.py").write_text(APP)
    message_id = shop.send(queue="slow")
    with started(shop.folder, "worker", "shop:app", "--processes", "2", "--json") as process:
        lines = Lines(process)
        lines.until("all 2 processes are up")
        asyncio.run(wait_until((shop.folder / "begun").exists, 20, "the handler has begun"))
        process.send_signal(signal.SIGTERM)
        lines.until("takes no new work")
        if signals == 1:
            (shop.folder / "go on").touch()
        else:
            process.send_signal(signal.SIGTERM)
        out, error = process.communicate()
    if signals == 1:
        assert (process.returncode, json.loads(out)["done"]) == (0, 1)
        assert shop.ok("show", message_id)["state"] == "done"
    else:
        assert (process.returncode, out) == (130, "")
        assert "killed before they had drained" in error.splitlines()[-1]
        assert shop.ok("show", message_id)["state"] == "claimed"


def test_when_the_parent_is_killed_its_children_drain_and_end(shop: Shop) -> None:
    (shop.folder / "shop.py").write_text(APP)
    message_id = shop.send(queue="slow")
    with started(shop.folder, "worker", "shop:app", "--processes", "2") as process:
        lines = Lines(process)
        lines.until("all 2 processes are up")
        asyncio.run(wait_until((shop.folder / "begun").exists, 20, "the handler has begun"))
        process.kill()
        lines.until("takes no new work")
        (shop.folder / "go on").touch()
        for _ in range(2):
            lines.until("Worker stopped")
    assert shop.ok("show", message_id)["state"] == "done"


@pytest.mark.parametrize(
    ("text", "flags", "code", "said"),
    [
        ("import missing_library", (), 2, "No module named 'missing_library'"),
        (APP, ("--store", "redis://127.0.0.1:PORT/0", "--fail-fast"), 5, "does not answer now"),
        (APP, ("--queue", "nowhere"), 2, "no handler for 'nowhere'"),
    ],
)
def test_what_cannot_start_is_told_by_a_child_and_ends_the_parent_with_its_code(
    shop: Shop, port: int, text: str, flags: tuple[str, ...], code: int, said: str
) -> None:
    (shop.folder / "shop.py").write_text(text)
    given = [flag.replace("PORT", str(port)) for flag in flags]
    result = finish(shop.folder, "worker", "shop:app", "--processes", "2", *given)
    assert (result.returncode, result.stdout) == (code, "")
    assert said in result.stderr
    last = json.loads(result.stderr.splitlines()[-1])["error"]
    assert last["exitCode"] == code
    assert f"ended at its start with exit code {code}: what it logged says why" in last["message"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [(("--processes", "0"), "write 1 or more"), (("--processes", "2", "--reload"), "leave --processes out")],
)
def test_what_cannot_be_meant_is_a_usage_error(shop: Shop, flags: tuple[str, ...], said: str) -> None:
    result = shop("worker", "shop:app", *flags)
    assert (result.code, result.out) == (2, "")
    assert said in result.error


def test_a_childs_command_line_is_its_parents_without_the_number() -> None:
    given = ["worker", "a:b", "--processes", "4", "--queue", "x", "--processes=3", "--json"]
    assert without_flag(given) == ["worker", "a:b", "--queue", "x", "--json"]


def test_a_pause_grows_with_quick_deaths_and_begins_again_after_a_steady_life() -> None:
    patience = Patience()
    pauses = [patience.died(1.0) for _ in range(TRIES - 1)]
    assert pauses[:3] == [0.25, 0.5, 1.0]
    assert pauses[-1] == 10.0
    assert patience.died(STEADY_S) == 0.25
    assert [patience.died(0.0) for _ in range(TRIES - 1)][-1] is None


UP_AND_DOWN = """
import json, os, sys
os.write(int(sys.argv[-1].partition("=")[2]), json.dumps({"up": True}).encode() + b"\\n")
sys.exit(7)
"""


async def test_when_one_dies_soon_after_its_start_again_and_again_all_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(children, "TRIES", 3)
    family = Children([sys.executable, "-c", UP_AND_DOWN], 1, 10)
    with pytest.raises(ChildrenFailed, match="3 times in a row soon after its start, last with exit code 7"):
        await family.run()
    assert family.restarts == 2


async def test_one_that_does_not_end_in_time_is_killed_and_that_is_said() -> None:
    deaf = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + (
        "import os; os.write(int(sys.argv[-1].partition('=')[2]), b'{\"up\": true}\\n'); signal.pause()"
    )
    family = Children([sys.executable, "-c", deaf], 2, 0.1)
    running = asyncio.create_task(family.run())
    await wait_until(lambda: family.up == 2, 20, "both are up")
    family.stop()
    with pytest.raises(ChildrenFailed, match=r"2 of 2 processes had not ended 0\.1 s after"):
        await running
