"""At 3 a.m. thousands of messages of twelve tenants are dead for five reasons: the story of the office.

By the command line and over HTTP, on SQLite and on Redis, with real processes. The ledger of the handlers
and the store itself say in the end what happened, not the operator's hand.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from redrive.core.lifecycle import State
from redrive.office.operations import records
from redrive.office.operations.conductor import CONDUCTOR_RECORDS
from tests.office.story.hands import CommandLine, Document, Hand
from tests.office.story.http import Http
from tests.office.story.site import TENANTS, Site, open_site

CANARY = 5
MENDED = ("relay", "mailbox", "template", "policy")
UNMENDED = "recipient"
HANDS: dict[str, Callable[[Site], Hand]] = {"command line": CommandLine, "http": Http}


@pytest.fixture(params=("sqlite", "redis"))
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    url = f"sqlite:///{tmp_path}/redrive.db"
    if request.param == "redis":
        url = f"{request.getfixturevalue('redis_url')}?prefix=story:{uuid.uuid4().hex[:12]}"
    async with open_site(tmp_path, url) as site:
        yield site


@pytest.fixture(params=HANDS)
async def hand(request: pytest.FixtureRequest, site: Site) -> AsyncIterator[Hand]:
    hand = HANDS[request.param](site)
    await hand.begin()
    yield hand
    await hand.end()


async def test_four_hundred_dead_letters_are_understood_mended_and_brought_back(
    site: Site, hand: Hand
) -> None:
    await play(site, hand, 400, rate=200)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_four_thousand_dead_letters_are_understood_mended_and_brought_back(
    site: Site, hand: Hand
) -> None:
    await play(site, hand, 4_000, rate=400)


@pytest.mark.long
async def test_a_redrive_whose_command_and_worker_are_killed_is_carried_on_by_the_next(site: Site) -> None:
    """Nothing is lost, each letter moves once, and only what was in flight may be handed over twice."""
    site.more["REDRIVE_WORKER_LEASE_S"] = "1"
    hand = CommandLine(site)
    await hand.begin()
    await site.bury(100)
    site.mend(*MENDED, UNMENDED)
    operation = await hand.redrive("", canary=CANARY, rate="20/s")
    await site.wait_until(lambda: _is_moving(site), "it is under way")
    site.stop()
    in_flight = sum([one.processing for one in await site.app.store.queues()])
    assert (await hand.operation(operation))["handled"] < 100
    await hand.begin()
    seen = await hand.wait(operation)
    assert (seen["state"], seen["moved"], seen["done"]) == ("finished", 100, 100)
    sent = Counter(one.id for one in site.attempts() if one.sent)
    assert sent.keys() == site.causes.keys()
    assert sent.total() - 100 <= in_flight
    accounts = await site.accounts()
    assert all([one.operation for one in each.redrives] == [operation] for each in accounts.values())
    assert (await hand.verify())["whole"]


async def play(site: Site, hand: Hand, count: int, *, rate: int) -> None:
    """The whole night."""
    await site.bury(count)
    groups = await see_the_five_groups(site, hand)
    await read_one_letter(site, hand, groups["421"])
    early = await try_too_early(site, hand, count, rate)
    site.mend(*MENDED)
    mended = f"fingerprint:{','.join(one['key'] for code, one in groups.items() if code != '422')}"
    stopped = await stop_on_the_way(site, hand, mended)
    rest = await bring_back_the_rest(site, hand, mended, rate)
    halted = await stop_at_the_unmended(site, hand, groups["422"], rate)
    operations = {early, stopped, rest, halted}
    await check_audit(hand, operations)
    await check_nothing_lost(site, operations)


async def see_the_five_groups(site: Site, hand: Hand) -> dict[str | None, Document]:
    groups = await hand.groups()
    assert [one["count"] for one in groups] == sorted((one["count"] for one in groups), reverse=True)
    found = {one["sample"]["lastFailureCode"]: one["count"] for one in groups}
    causes = Counter(site.causes.values())
    assert sorted(found.values()) == sorted(causes.values())
    assert {found["421"], found["552"], found["550"], found["422"]} <= set(causes.values())
    assert len(groups) == 5
    assert {one["tenants"] for one in groups} <= set(range(1, len(TENANTS) + 1))
    assert groups[0]["tenants"] == len(TENANTS)
    return {one["sample"]["lastFailureCode"]: one for one in groups}


async def read_one_letter(site: Site, hand: Hand, group: Document) -> None:
    letter = await hand.letter(group["sample"]["jobId"])
    assert site.causes[letter["jobId"]] == "relay"
    assert (letter["reason"], letter["failedAttempts"]) == ("exhausted", 2)
    assert [(one["attempt"], one["kind"]) for one in letter["failures"]] == [
        (1, "temporary"),
        (2, "temporary"),
    ]
    assert letter["originalData"]["cause"] == "relay"


async def try_too_early(site: Site, hand: Hand, count: int, rate: int) -> str:
    """Nothing is mended yet: the canary dies again and the rest is not moved."""
    preview = await hand.preview("")
    assert (preview["count"], len(preview["samples"])) == (count, 5)
    assert sum(one["count"] for one in preview["groups"]) == count
    operation = await hand.redrive("", canary=CANARY, rate=f"{rate}/s")
    seen = await hand.wait(operation)
    assert seen["state"] == "halted"
    assert (seen["total"], seen["moved"], seen["failed"]) == (count, CANARY, CANARY)
    assert f"{count - CANARY:,} were not moved" in seen["why"]
    await site.wait_until(lambda: _all_dead(site), "the canary is dead again")
    assert await site.states() == {(State.DEAD, 0): count - CANARY, (State.DEAD, 1): CANARY}
    await hand.tell(operation, "cancel")
    assert (await hand.operation(operation))["state"] == "cancelled"
    return operation


async def stop_on_the_way(site: Site, hand: Hand, chosen: str) -> str:
    """Five first, then the rest at 20 a second; somebody pauses it, lets it go on, and ends it."""
    wanted = len(site.ids(*MENDED))
    operation = await hand.redrive(chosen, canary=CANARY, rate="20/s")

    async def is_under_way() -> bool:
        return bool((await hand.operation(operation))["handled"] > CANARY)

    await site.wait_until(is_under_way, "the canary passed and more follow")
    await hand.tell(operation, "pause")
    await site.wait_until(lambda: _nobody_moves(site, operation), "the step under way has ended")
    paused = await hand.operation(operation)
    assert (paused["state"], paused["failed"]) == ("paused", 0)
    assert CANARY < paused["handled"] < wanted
    assert (await hand.operation(operation))["handled"] == paused["handled"]
    await hand.tell(operation, "resume")
    await hand.tell(operation, "cancel")
    await site.wait_until(lambda: _is_told(site, operation), "the step under way has ended")
    return operation


async def bring_back_the_rest(site: Site, hand: Hand, chosen: str, rate: int) -> str:
    left = (await hand.preview(chosen))["count"]
    began_s = time.monotonic()
    operation = await hand.redrive(chosen, canary=CANARY, rate=f"{rate}/s")
    seen = await hand.wait(operation)
    assert time.monotonic() - began_s > (left - CANARY) / rate
    assert (seen["state"], seen["total"], seen["moved"], seen["skipped"]) == ("finished", left, left, 0)
    assert (seen["done"], seen["failed"], seen["outstanding"]) == (left, 0, 0)
    return operation


async def stop_at_the_unmended(site: Site, hand: Hand, group: Document, rate: int) -> str:
    """The fifth cause was thought to be mended too: its canary says no, and the others stay."""
    wanted = len(site.ids(UNMENDED))
    operation = await hand.redrive(f"fingerprint:{group['key']}", canary=CANARY, rate=f"{rate}/s")
    seen = await hand.wait(operation)
    assert seen["state"] == "halted"
    assert (seen["total"], seen["moved"], seen["failed"]) == (wanted, CANARY, CANARY)
    await site.wait_until(lambda: _all_ended(site), "the canary is dead again")
    await hand.tell(operation, "cancel")
    await hand.note(group["key"], "orders without a recipient: the importer is asked")
    (left,) = await hand.groups()
    assert (left["key"], left["count"], left["notes"]) == (group["key"], wanted, 1)
    return operation


async def check_audit(hand: Hand, operations: set[str]) -> None:
    """Who did what: an intent, the frozen list and an outcome each, and the chain is whole."""
    rows = await hand.audit()
    assert all(row["actor"] for row in rows)
    for operation in operations:
        own = [row for row in rows if row["action"] == operation]
        assert [row["row"] for row in own] == ["intent", "frozen", "outcome"]
        assert len({row["actor"] for row in own}) == 1
    verbs = Counter(row["verb"] for row in rows if row["row"] == "intent")
    assert (verbs["redrive"], verbs["pause operation"], verbs["resume operation"]) == (4, 1, 1)
    assert verbs["cancel operation"] == 3
    verification = await hand.verify()
    assert (verification["whole"], verification["faults"]) == (True, [])


async def check_nothing_lost(site: Site, operations: set[str]) -> None:
    """Every order is sent once or is a dead letter; no attempt was handed over twice."""
    accounts = await site.accounts()
    assert accounts.keys() == site.causes.keys()
    ended = {State.DONE: site.ids(*MENDED), State.DEAD: site.ids(UNMENDED)}
    for state, ids in ended.items():
        assert {one for one, account in accounts.items() if account.state is state} == ids
    attempts = site.attempts()
    assert Counter(one.id for one in attempts if one.sent) == dict.fromkeys(site.ids(*MENDED), 1)
    handed = Counter((one.id, one.generation, one.attempt) for one in attempts)
    assert set(handed.values()) == {1}
    moves = [one.operation for account in accounts.values() for one in account.redrives]
    assert set(moves) == operations
    assert len(moves) == len(site.ids(*MENDED)) + 2 * CANARY


async def _nobody_moves(site: Site, operation_id: str) -> bool:
    """Whoever moved an operation gives its lease back once he sees that it was paused."""
    return await site.app.store.get_record(CONDUCTOR_RECORDS, operation_id) is None


async def _is_told(site: Site, operation_id: str) -> bool:
    """The end of an operation is told under its lease: nobody is in the middle of a step then."""
    return (await records.load(site.app.store, operation_id)).told


async def _is_moving(site: Site) -> bool:
    return (await site.states())[State.DONE, 1] > 2 * CANARY


async def _all_dead(site: Site) -> bool:
    return {state for state, _ in await site.states()} == {State.DEAD}


async def _all_ended(site: Site) -> bool:
    return {state for state, _ in await site.states()} <= {State.DEAD, State.DONE}
