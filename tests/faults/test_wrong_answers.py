"""Handlers that answer with the wrong things, cancel everything, or close the store: judged by the ledgers.

Each bad message runs as often as its policy allows and is then a dead letter; each good one beside it runs
once. Rights that are gone for a while run nothing twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.core.lifecycle import State
from redrive.core.verdict import Reason
from tests.faults.handlers import ATTEMPTS, WRONG_ANSWERS
from tests.faults.ledger import Plan
from tests.faults.processes import open_site
from tests.servers import ask, start_redis
from tests.waiting import wait_until

ACTS = [*WRONG_ANSWERS, "cancel"]


@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.long)])
async def test_wrong_answers_are_counted_and_run_as_often_as_the_policy_says(
    tmp_path: Path, store_url: str, rounds: int
) -> None:
    async with open_site(tmp_path, store_url) as site:
        worker = await site.start_worker(lease_s=5, concurrency=1)
        bad = [await site.submit(Plan(act=act, fails=ATTEMPTS)) for act in ACTS * rounds]
        good = [await site.submit(Plan(act="open")) for _ in range(20 * rounds)]
        await site.wait_idle(timeout_s=60 * rounds)
        assert worker.running
        assert await site.violations() == []
        for each in bad:
            account = await site.app.store.get(each)
            assert account is not None
            assert (account.reason, len(account.failures)) == (Reason.EXHAUSTED, ATTEMPTS)
            assert len(site.handed("begin", each)) == ATTEMPTS
        for each in good:
            assert (await site.progress(each)).state is State.DONE
            assert len(site.handed("begin", each)) == 1
        assert site.handed("released") == []


async def test_rights_that_are_gone_for_a_while_run_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    server = start_redis(folder)
    ask(server.port, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
    address = f"redis://worker:secret@127.0.0.1:{server.port}/0"
    try:
        async with open_site(tmp_path, f"redis://127.0.0.1:{server.port}/0", address) as site:
            site.evidence.outages = True
            gate = tmp_path / "gate"
            await site.start_worker(lease_s=10, concurrency=40)
            ids = [await site.submit(Plan(gate=str(gate))) for _ in range(40)]
            await site.wait_for("begin", count=len(ids))
            ask(server.port, "ACL", "SETUSER", "worker", "-evalsha", "-eval")
            gate.touch()
            await wait_until(
                lambda: any(line.note.startswith("settle") for line in site.handed("trouble")),
                20,
                "a settlement is refused",
            )
            await site.wait_for("trouble", count=4)
            ask(server.port, "ACL", "SETUSER", "worker", "+evalsha", "+eval")
            await site.wait_idle()
            assert await site.violations() == []
            assert [len(site.handed("begin", each)) for each in ids] == [1] * len(ids)
    finally:
        server.stop()
