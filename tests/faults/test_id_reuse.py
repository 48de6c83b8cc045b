"""Ids that are used again: a repeat runs once, another message under the id is refused, none is dropped."""

from __future__ import annotations

import asyncio
import random
import uuid
from pathlib import Path

import pytest

from redrive import Conflict, Submission
from tests.faults.handlers import ORDERS, PLAIN
from tests.faults.ledger import Plan
from tests.faults.processes import Site, open_site


async def _reuse(site: Site, draw: random.Random, queues: list[str]) -> int:
    """One id in several hands at once; how many of them were refused."""
    message_id, refused = str(uuid.UUID(int=draw.getrandbits(128), version=4)), 0
    plans = [Plan(), Plan(padding="x"), Plan(padding="y")]
    calls = [(draw.choice(queues), draw.choice(plans), draw.choice(["acme", "beta"])) for _ in range(6)]
    calls += draw.sample(calls, 2)
    answers = await asyncio.gather(
        *(
            site.app.submit(queue, plan, tenant=tenant, message_id=message_id)
            for queue, plan, tenant in calls
        ),
        return_exceptions=True,
    )
    taken = {
        call for call, answer in zip(calls, answers, strict=True) if not isinstance(answer, BaseException)
    }
    assert len(taken) == 1, "one message holds the id, and every repeat of it is accepted"
    for answer in answers:
        if isinstance(answer, BaseException):
            assert isinstance(answer, Conflict)
            refused += 1
    (_, plan, _) = taken.pop()
    site.note_accepted([message_id], plan)
    return refused


@pytest.mark.parametrize("count", [60, pytest.param(3_000, marks=pytest.mark.long)])
async def test_whatever_is_accepted_under_an_id_runs_once_and_everything_else_is_told(
    tmp_path: Path, store_url: str, count: int
) -> None:
    """On Redis ids are unique within a queue: queues lie apart there."""
    draw = random.Random(11)  # noqa: S311 - repeatable
    queues = [ORDERS] if store_url.startswith("redis") else [ORDERS, PLAIN]
    async with open_site(tmp_path, store_url) as site:
        await site.start_worker(lease_s=5)
        refused = sum([await _reuse(site, draw, queues) for _ in range(count)])
        assert refused > count
        await site.wait_idle(60 + count / 20)
        assert await site.violations() == []
        assert site.evidence.repeated == 0


async def test_a_batch_that_names_an_id_twice_is_refused_whole(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        same = str(uuid.uuid4())
        batch = [Submission(Plan(), message_id=same), Submission(Plan(padding="x"), message_id=same)]
        with pytest.raises(Conflict):
            await site.app.submit_many(ORDERS, batch)
        assert await site.app.store.get(same) is None
