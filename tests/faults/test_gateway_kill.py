"""Kill -9 of the whole gateway under load: every accepted mail is in the mailbox, waiting, or dead.

A mail comes twice only if it was in flight at a kill, and then with the same Message-ID. One
that was in flight at three kills is a dead letter, whether or not it had gone out before one of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.core.lifecycle import State
from redrive.core.verdict import CRASH_LIMIT, Reason
from redrive.mail.desk import RecipientState
from redrive.mail.writing.mail import Mail
from redrive.mailbox import Mailbox
from redrive.testing import dead_letters
from tests.faults.gateway_child import make_gateway
from tests.programs import Program
from tests.waiting import wait_until

ADDRESSES = ("ok", "ok", "ok", "fail-1-then-ok", "reply-550-5.1.1", "slow-20ms")


async def test_nothing_is_lost_when_the_gateway_is_killed_under_load(
    tmp_path: Path, sqlite_store: str
) -> None:
    await _run(tmp_path, sqlite_store, rounds=6)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_nothing_is_lost_in_fifty_kills_of_the_gateway(tmp_path: Path, store_url: str) -> None:
    await _run(tmp_path, store_url, rounds=50)


async def _run(folder: Path, store: str, rounds: int) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULTS_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - repeats a run
    accepted: dict[str, list[str]] = {}
    in_flight: Counter[str] = Counter()
    async with Mailbox() as inbox, make_gateway(folder, store, inbox.url) as app:
        for number in range(rounds):
            child = _start(folder, store, inbox.url)
            try:
                already = len(inbox.attempts)
                await _submit(app, chance, accepted, number)
                await wait_until(lambda: len(inbox.attempts) > already + 5, 20, "mails go out")  # noqa: B023
                await asyncio.sleep(chance.uniform(0, 0.2))
            finally:
                child.kill()
                child.wait()
            in_flight.update(await _claimed(app, accepted))
        last = _start(folder, store, inbox.url)
        try:
            await wait_until(lambda: _is_settled(app), 60, "every mail is settled")
        finally:
            last.terminate()
            assert last.wait(timeout=40) == 0
        await _check(app, inbox, accepted, in_flight)


def _start(folder: Path, store: str, relay: str) -> Program:
    arguments = ["tests.faults.gateway_child", str(folder), store, relay]
    with (folder / "gateway.err").open("ab") as errors:
        return Program(arguments, stdout=errors, stderr=errors)


async def _submit(app: Redrive, chance: random.Random, accepted: dict[str, list[str]], number: int) -> None:
    for one in range(30):
        count = chance.choice((1, 1, 1, 3))
        to = [f"{chance.choice(ADDRESSES)}+{number}-{one}-{place}@example.org" for place in range(count)]
        mail = Mail(from_="shop@acme.example", to=to, subject=f"{number}-{one}", text="x" * 500)
        receipt = await app.mail.submit(mail, tenant=f"tenant-{one % 3}")
        accepted[receipt.id] = to


async def _claimed(app: Redrive, accepted: dict[str, list[str]]) -> set[str]:
    """The recipients that the killed gateway held."""
    held: set[str] = set()
    for mail_id in accepted:
        status = await app.mail.find(mail_id)
        assert status is not None
        sending = [one.address for one in status.recipients if one.state is RecipientState.SENDING]
        held.update(sending)
    return held


async def _is_settled(app: Redrive) -> bool:
    counts = await app.store.queues()
    return not any(one.pending + one.scheduled + one.retry_scheduled + one.processing for one in counts)


async def _check(
    app: Redrive, inbox: Mailbox, accepted: dict[str, list[str]], in_flight: Counter[str]
) -> None:
    arrived = Counter(address for mail in inbox.received for address in mail.recipients)
    named = {(address, mail.message_id) for mail in inbox.received for address in mail.recipients}
    letters = {letter.message.headers["to"]: letter for letter in await dead_letters(app)}
    dead = letters.keys()
    lost = {address for address, letter in letters.items() if letter.reason is Reason.WORKER_LOST}
    for mail_id, recipients in accepted.items():
        status = await app.mail.find(mail_id)
        assert status is not None
        died = len(recipients) == 1 and recipients[0] in dead
        assert status.account.state is (State.DEAD if died else State.DONE)
        assert sorted(one.address for one in status.recipients) == sorted(recipients)
        for address in recipients:
            if address in lost:
                assert in_flight[address] >= CRASH_LIMIT, f"{address} is worker lost after too few kills"
                continue
            assert (address in dead) != (arrived[address] > 0), f"{address}: lost, or dead and delivered"
            assert arrived[address] <= 1 or address in in_flight, f"{address} came twice without a kill"
    assert len(named) == len(arrived), "a mail came twice under two Message-IDs"
    twice = sum(count > 1 for count in arrived.values())
    print(f"{len(accepted)} mails, {len(inbox.received)} received, {twice} twice, {len(dead)} dead")
