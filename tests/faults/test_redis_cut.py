"""The connection to Redis is cut at any byte of a request or of its reply, and the caller asks again.

A cut request may not have reached the server, a cut reply leaves the call done and unheard. Either way the
repeat finds each message once, counted once, with one failure: nothing is doubled. The bytes to
cut at are drawn anew in each run, beside the first and last ones; FAULTS_SEED draws the same again.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from redrive.config import Settings
from redrive.core.errors import StoreUnavailable
from redrive.core.settings import FINISHED_IN_MEMORY
from redrive.core.store import Store
from redrive.core.verdict import Bury, Complete, RetryAt
from redrive.wiring import make_store
from tests.faults import trials
from tests.faults.ledger import Plan
from tests.faults.moved import check_audit, check_brought_back, told
from tests.faults.processes import open_site
from tests.faults.proxy import Budget, Proxy, at_random, open_proxy
from tests.faults.recovery import bury
from tests.office.desks import desk, redrive

CUTS = 20
EDGE = 3
LEAST_CUTS = 20
MOST_ROUNDS = 10
LEASE_S = 5.0
MOST_BYTES = 6_000
LETTERS = 1_000
MOST_OPERATION_BYTES = 40_000
"""A connection carries at least one chunk of a frozen list, now and then."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The store by a connection of its own, and through a proxy that cuts."""

    store: Store
    cut: Store
    proxy: Proxy


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULTS_SEED={seed}")
    return random.Random(seed)  # noqa: S311 - repeats a run


@pytest.fixture
async def wire(redis_store: str) -> AsyncIterator[Wire]:
    async with open_proxy(_port(redis_store)) as proxy:
        store, cut = (
            make_store(Settings(store=url, finished=FINISHED_IN_MEMORY))
            for url in (redis_store, _through(redis_store, proxy))
        )
        await store.open()
        await cut.open()
        yield Wire(store, cut, proxy)
        await cut.close()
        await store.close()


TRIALS: dict[str, Callable[[], trials.Trial]] = {
    "append": trials.Append,
    "claim": trials.Take,
    "reclaim": trials.Reclaim,
    "settle, done": lambda: trials.Settle(Complete),
    "settle, to be tried again": lambda: trials.Settle(RetryAt),
    "settle, dead": lambda: trials.Settle(Bury),
    "redrive": trials.Redrive,
    "remove": trials.Discard,
    "record": trials.Write,
    "journal": trials.Journal,
}


@pytest.mark.parametrize("name", TRIALS)
async def test_a_call_cut_at_any_byte_and_asked_again_is_done_once(
    wire: Wire, chance: random.Random, name: str
) -> None:
    trial = TRIALS[name]()
    budgets = list(_budgets(chance, await _measure(wire, trial)))
    for budget in budgets:
        await trial.prepare(wire.store)
        wire.proxy.arm(budget)
        await trial.check(wire.store, await _ask(wire, trial))
    assert wire.proxy.cuts == len(budgets)


async def _measure(wire: Wire, trial: trials.Trial) -> Budget:
    """How many bytes the call and its reply are, once the server knows the script."""
    for _ in range(2):
        await trial.prepare(wire.store)
        wire.proxy.arm(Budget())
        await trial.check(wire.store, await _ask(wire, trial))
    return wire.proxy.carried


def _budgets(chance: random.Random, whole: Budget) -> Iterator[Budget]:
    request, reply = int(whole.request), int(whole.reply)
    for count in _places(chance, request):
        yield Budget(request=count)
    for count in _places(chance, reply - 1):
        yield Budget(reply=count)


def _places(chance: random.Random, length: int) -> list[int]:
    """The first, the last and some other numbers of bytes up to a length."""
    every = range(length + 1)
    return sorted({*every[:EDGE], *every[-EDGE:], *chance.sample(every, min(CUTS, len(every)))})


async def _ask(wire: Wire, trial: trials.Trial) -> object:
    """The answer, as a caller gets it who repeats what was not answered."""
    wire.cut.skew_ms = wire.store.skew_ms
    for _ in range(3):
        try:
            return await trial.call(wire.cut)
        except StoreUnavailable:
            continue
    raise AssertionError("three calls were not answered, and only one was cut")


async def test_connections_cut_all_the_time_cost_no_message_an_attempt(
    tmp_path: Path, redis_store: str, chance: random.Random
) -> None:
    """What was cut is asked again well within its lease: nothing is lost, repeated or taken for a crash."""
    async with (
        open_proxy(_port(redis_store)) as proxy,
        open_site(tmp_path, redis_store, _through(redis_store, proxy)) as site,
    ):
        site.evidence.outages = True
        workers = [await site.start_worker(lease_s=LEASE_S) for _ in range(2)]
        rounds = 0
        while proxy.cuts <= LEAST_CUTS and rounds < MOST_ROUNDS:
            rounds += 1
            submitter = site.start("submit", count=200, seed=chance.randrange(1000), pace_s=0.01)
            await site.wait_until(lambda: bool(site.accepted()), "the load begins")
            proxy.cut_all(at_random(chance, MOST_BYTES))
            assert await submitter.ended(40) == 0, submitter.errors
        proxy.cut_all(Budget)
        await site.wait_idle()
        assert await site.violations() == []
        assert site.handed("refused") == [], "its own settle, asked again, was taken for a stale one"
        assert proxy.cuts > LEAST_CUTS
        print(f"{proxy.cuts} cuts, {site.evidence.repeated} repeated of {len(site.evidence.accepted)}")
        assert all(worker.running for worker in workers)


async def test_an_operation_whose_connections_are_cut_all_the_time_moves_each_letter_once(
    tmp_path: Path, redis_store: str, chance: random.Random
) -> None:
    """Its record, lease, moves and rows of the audit are asked for again, and are there once."""
    async with (
        open_proxy(_port(redis_store)) as proxy,
        open_site(tmp_path, redis_store, _through(redis_store, proxy)) as site,
    ):
        site.evidence.outages = True
        ids = await bury(site, LETTERS, Plan(permanent=1))
        for _ in range(2):
            await site.start_worker(lease_s=LEASE_S, conductor_lease_s=0.5)
        proxy.cut_all(at_random(chance, MOST_OPERATION_BYTES))
        started = await desk(site.app.store).start(redrive(canary=5, rate="500/s"))
        await site.wait_until(lambda: told(site, started.id), "the operation ends")
        proxy.cut_all(Budget)
        await site.wait_idle()
        assert await site.violations() == []
        await check_brought_back(site, ids, [started.id])
        await check_audit(site.app.store, started.id)
        print(f"{proxy.cuts} cuts")


def _port(url: str) -> int:
    return int(url.partition("127.0.0.1:")[2].partition("/")[0])


def _through(url: str, proxy: Proxy) -> str:
    return url.replace(f":{_port(url)}/", f":{proxy.port}/")
