"""`app.dead_letters`: find, count, group, re-drive and discard from Python, with the same audit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from redrive import (
    InvalidMessage,
    Permanent,
    Redrive,
    RetryPolicy,
    Temporary,
    Uncertain,
    check_entry,
    delay_s,
    is_retryable,
    priority,
)
from redrive.core.retry import UncertainPolicy
from redrive.dead_letters import DeadLetters
from redrive.office.audit import Query, this_account
from redrive.office.operations import OperationError
from redrive.testing import run_until_idle
from redrive.wiring import load


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Redrive]:
    """Three letters of acme two hours old, and two new ones of beta, each a second after the one before."""
    settings = load({"store": f"sqlite:///{tmp_path}/redrive.db"}, environ={}, folder=tmp_path)
    app, broken = Redrive(settings=settings), [True]

    @app.handler("orders")
    async def charge(order: int) -> None:
        if broken[0]:
            raise Permanent("no such card", code="402" if order < 10 else "404")

    async with app:
        for number, tenant in ((0, "acme"), (1, "acme"), (2, "acme"), (10, "beta"), (11, "beta")):
            await app.submit("orders", number, tenant=tenant)
            await run_until_idle(app)
            app.skew_ms += 7_200_000 if number == 2 else 1_000
        broken[0] = False
        yield app


async def _bodies(letters: DeadLetters, *arguments: str, **narrow: object) -> list[bytes]:
    return [one.message.body async for one in letters.find(*arguments, **narrow)]  # type: ignore[arg-type]


async def test_letters_are_found_and_counted_by_filter_tenant_queue_and_age(shop: Redrive) -> None:
    letters = shop.dead_letters
    assert await _bodies(letters) == [b"0", b"1", b"2", b"10", b"11"]
    assert await _bodies(letters, "code:404") == [b"10", b"11"]
    assert await _bodies(letters, "code:404 OR tenant:acme", limit=2) == [b"0", b"1"]
    assert await _bodies(letters, older_than=3600, limit=2) == [b"0", b"1"]
    assert await _bodies(letters, "code:404 OR code:402", older_than=timedelta(hours=1)) == [b"0", b"1", b"2"]
    assert await letters.count() == 5
    assert await letters.count("code:402", tenant="acme", queue="orders") == 3
    assert await letters.count(older_than=3600) == 3


async def test_causes_come_in_groups(shop: Redrive) -> None:
    found = await shop.dead_letters.groups()
    assert [one.counts.count for one in found] == [3, 2]


async def test_a_redrive_and_a_discard_are_operations_with_rows_in_the_audit(shop: Redrive) -> None:
    letters = shop.dead_letters
    assert (await letters.preview("code:402")).count == 3
    redriven = await letters.wait(await letters.redrive("code:402", rate="100/s"))
    assert redriven.moved == 3
    assert await run_until_idle(shop) == {"done": 3}
    first, _ = [one.message.id async for one in letters.find()]
    await letters.wait(await letters.discard(ids=[first]))
    assert await letters.count() == 1
    await letters.wait((await letters.discard(older_than=0, all=False, tenant="beta")).id)
    assert await letters.count() == 0
    rows = await shop.office.acting(this_account("python")).audit.latest(Query(), 100)
    assert {row.document["verb"] for row in rows} == {"redrive", "discard"}
    assert {(row.document["actor"], row.document["origin"]) for row in rows} == {
        (this_account("python").name, "python")
    }


async def test_a_discarded_letter_comes_back_while_it_is_kept(shop: Redrive) -> None:
    letters = shop.dead_letters
    await letters.wait(await letters.discard("code:402"))
    assert await letters.count() == 2
    back = await letters.wait(await letters.undiscard(tenant="acme", limit=2))
    assert (back.moved, await letters.count("code:402")) == (2, 2)
    rows = await shop.office.acting(this_account("python")).audit.latest(Query(verb="undiscard"), 10)
    assert {row.document["origin"] for row in rows} == {"python"}


@pytest.mark.parametrize(
    "wrong", [{}, {"ids": ["a"], "tenant": "b"}, {"filter": "x", "all": True}, {"filter": " "}]
)
async def test_a_forgotten_argument_never_means_all(shop: Redrive, wrong: dict[str, object]) -> None:
    letters = shop.dead_letters
    for verb in (letters.redrive, letters.discard, letters.undiscard, letters.preview):
        with pytest.raises(OperationError, match="say which letters"):
            await verb(**wrong)  # type: ignore[arg-type, operator]
        with pytest.raises(TypeError, match="tennant"):
            await verb(tennant="acme")  # type: ignore[call-arg, operator]
    assert await shop.dead_letters.count() == 5


async def test_letters_that_are_no_mails_do_not_go_to_the_mail_gateway(shop: Redrive) -> None:
    with pytest.raises(OperationError, match="cannot go to email:send: it is not a mail"):
        await shop.dead_letters.redrive("code:402", to="email:send")
    assert await shop.dead_letters.count() == 5


async def test_code_that_does_not_await_has_them_too(shop: Redrive) -> None:
    count = await asyncio.to_thread(lambda: shop.sync.wait(shop.dead_letters.count("code:402")))
    assert count == 3
    await asyncio.to_thread(shop.sync.close)


async def test_an_entry_as_our_json_has_it_is_checked(shop: Redrive) -> None:
    page = await shop.office.acting(this_account("python")).letters.find(limit=1)
    entry = msgspec.to_builtins(page.document.letters[0])
    assert check_entry(entry).company_id == "acme"
    assert check_entry(msgspec.json.encode(entry)).queue == "orders"
    for changed in (
        {"companyId": "a b"},
        {"queue": ""},
        {"failedAttempts": "many"},
        {"failedAttempts": -1},
        {"enqueuedAt": "yesterday"},
    ):
        with pytest.raises(InvalidMessage):
            check_entry(entry | changed)
    with pytest.raises(InvalidMessage, match="jobId"):
        check_entry({name: value for name, value in entry.items() if name != "jobId"})
    with pytest.raises(InvalidMessage):
        check_entry(b"[")


def test_the_rules_are_functions_too() -> None:
    policy = RetryPolicy()
    assert [delay_s(policy, failed, 0.5) for failed in (1, 2, 3, 7)] == [1, 2, 4, 60]
    assert [priority(rounds) for rounds in (0, 3, 9)] == [5, 2, 1]
    assert is_retryable(Temporary("504"))
    assert is_retryable(ValueError("unknown errors are temporary"))
    assert not is_retryable(Permanent("no such card"))
    assert is_retryable(Uncertain("dropped"))
    assert not is_retryable(Uncertain("dropped"), RetryPolicy(uncertain=UncertainPolicy.BURY))


async def test_an_operation_of_an_instant_leaves_what_died_later(shop: Redrive) -> None:
    letters = shop.dead_letters
    found = await letters.preview(all=True)
    hour_ms = 3_600_000
    discarded = await letters.wait(await letters.discard(all=True, as_of=found.as_of - hour_ms))
    assert (found.count, discarded.moved, await letters.count(tenant="beta")) == (5, 3, 2)
    redriven = await letters.wait(await letters.redrive(all=True, as_of=found.as_of))
    assert redriven.moved == 2
