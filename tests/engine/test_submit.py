"""Submitting: what is accepted, what is refused, and that a refusal leaves no trace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from redrive import Conflict, InvalidMessage, Redrive, Submission
from redrive.core.message import Entry
from redrive.core.ports import Receipt, Status

from .conftest import MakeApp


async def _count(app: Redrive) -> int:
    return sum(counts.pending + counts.scheduled for counts in await app.store.queues())


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (object(), "cannot be written as JSON"),
        ({"text": "\ud800"}, "cannot be written as JSON"),
        (_nested(100_000), "nested too deeply"),
        ("x" * 10_000_000, "1,048,576 are allowed"),
    ],
)
async def test_a_payload_that_cannot_be_kept_is_refused(app: Redrive, payload: object, says: str) -> None:
    with pytest.raises(InvalidMessage, match=says):
        await app.submit("orders", payload)
    assert await _count(app) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"tenant": "a b"},
        {"tenant": ""},
        {"tenant": "{x}"},
        {"dedupe": ""},
        {"dedupe": "a\x00b"},
        {"dedupe": "k" * 513},
        {"track": "express"},
        {"ttl": timedelta(0)},
        {"at": datetime(2030, 1, 1)},  # noqa: DTZ001 - a naive datetime is the point
        {"delay": timedelta(1), "at": datetime.now().astimezone()},
        {"headers": {"a": "b\r\nc: d"}},
        {"headers": {"": "b"}},
        {"headers": {"a": "x" * 20_000}},
        {"message_id": "7"},
    ],
)
async def test_a_bad_option_is_refused(app: Redrive, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage):
        await app.submit("orders", 1, **options)
    assert await _count(app) == 0


@pytest.mark.parametrize("queue", ["", "a b", "a{b}", "a*", "q" * 129, "é"])
async def test_a_bad_queue_name_is_refused(app: Redrive, queue: str) -> None:
    with pytest.raises(InvalidMessage, match="queue"):
        await app.submit(queue, 1)


async def test_nul_and_any_unicode_survive(app: Redrive) -> None:
    text = "NUL \x00, emoji \U0001f600, \u202e right to left"
    receipt = await app.submit("orders", {"text": text}, headers={"subject": "é \U0001f600"})
    account = await app.store.get(receipt.id)
    assert account is not None
    assert b"emoji" in account.message.body
    assert account.message.headers == {"subject": "é \U0001f600"}


async def test_a_repeat_with_the_same_key_answers_with_the_first_id(app: Redrive) -> None:
    first = await app.submit("orders", {"n": 1}, dedupe="order-1")
    again = await app.submit("orders", {"n": 1}, dedupe="order-1")
    assert (again.id, again.status) == (first.id, Status.DUPLICATE)
    assert await _count(app) == 1


async def test_the_same_key_with_another_body_is_a_conflict_with_the_first_id(app: Redrive) -> None:
    first = await app.submit("orders", {"n": 1}, dedupe="order-1")
    with pytest.raises(Conflict) as caught:
        await app.submit("orders", {"n": 2}, dedupe="order-1")
    assert caught.value.first_id == first.id


async def test_the_same_message_id_again_is_accepted_and_not_doubled(app: Redrive) -> None:
    message_id = "019a8b7c-1234-7abc-8def-0123456789ab"
    first = await app.submit("orders", 1, message_id=message_id)
    again = await app.submit("orders", 1, message_id=message_id)
    assert first.id == again.id == message_id
    assert await _count(app) == 1


@pytest.mark.parametrize(
    ("queue", "payload", "tenant", "differs"),
    [
        ("invoices", {"x": 1}, "acme", "queue"),
        ("orders", {"x": 2}, "acme", "content"),
        ("orders", {"x": 1}, "other", "tenant"),
    ],
)
async def test_the_message_id_of_another_message_is_a_conflict_that_shows_no_payload(
    app: Redrive, queue: str, payload: object, tenant: str, differs: str
) -> None:
    message_id = "019a8b7c-1234-7abc-8def-0123456789ab"
    await app.submit("orders", {"x": 1}, tenant="acme", message_id=message_id)
    with pytest.raises(Conflict, match=f"another {differs}; repeat a message as it was") as caught:
        await app.submit(queue, payload, tenant=tenant, message_id=message_id)
    assert (caught.value.first_id, caught.value.differs) == (message_id, differs)
    assert "x" not in str(caught.value).replace("another", "")
    assert await _count(app) == 1


async def test_a_message_id_twice_in_a_batch_with_other_payloads_is_a_conflict(app: Redrive) -> None:
    message_id = "019a8b7c-1234-7abc-8def-0123456789ab"
    batch = [Submission(1, message_id=message_id), Submission(2, message_id=message_id)]
    with pytest.raises(Conflict, match=f"message 1 of the batch: message id {message_id}"):
        await app.submit_many("orders", batch)
    assert await _count(app) == 0


async def test_a_batch_is_all_or_nothing_and_names_the_bad_index(app: Redrive) -> None:
    with pytest.raises(InvalidMessage, match="message 1 of the batch") as caught:
        await app.submit_many("orders", [Submission(1), Submission(object()), Submission(3)])
    assert caught.value.index == 1
    assert await _count(app) == 0


async def test_a_bare_payload_in_a_batch_is_refused_with_advice(app: Redrive) -> None:
    with pytest.raises(InvalidMessage, match=r"message 1 of the batch.*write Submission\(payload\)"):
        await app.submit_many("orders", [Submission({"n": 1}), {"n": 2}])  # type: ignore[list-item]


async def test_a_batch_with_a_conflict_writes_nothing_and_names_the_index(app: Redrive) -> None:
    await app.submit("orders", 1, dedupe="k")
    with pytest.raises(Conflict, match="message 2 of the batch"):
        await app.submit_many("orders", [Submission(1), Submission(2), Submission(3, dedupe="k")])
    assert await _count(app) == 1


async def test_a_batch_that_is_too_large_is_refused_whole(app: Redrive) -> None:
    with pytest.raises(InvalidMessage, match="1,000 messages"):
        await app.submit_many("orders", [Submission(n) for n in range(1_001)])
    with pytest.raises(InvalidMessage, match="8,388,608 bytes"):
        await app.submit_many("orders", [Submission("x" * 1_000_000) for _ in range(9)])
    assert await _count(app) == 0


async def test_concurrent_submits_share_writes_and_each_gets_its_own_answer(app: Redrive) -> None:
    await app.submit("orders", "first", dedupe="taken")
    answers = await asyncio.gather(
        *(app.submit("orders", {"n": n}) for n in range(500)),
        app.submit("orders", "other", dedupe="taken"),
        return_exceptions=True,
    )
    assert isinstance(answers[-1], Conflict)
    accepted = [answer.id for answer in answers[:-1] if not isinstance(answer, BaseException)]
    assert len(set(accepted)) == 500
    assert await _count(app) == 501


async def test_many_who_submit_one_after_the_other_share_as_many_appends_as_the_store_wants(
    each_app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, append = each_app.store, each_app.store.append
    under_way, most = 0, 0

    async def watched(groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await append(groups)
        finally:
            under_way -= 1

    async def submit(caller: int) -> list[str]:
        return [(await each_app.submit("orders", {"n": n, "caller": caller})).id for n in range(5)]

    monkeypatch.setattr(store, "append", watched)
    answers = await asyncio.gather(*map(submit, range(100)))
    assert len({one for ids in answers for one in ids}) == 500 == await _count(each_app)
    assert most == store.appends_at_once


async def test_a_cancelled_caller_does_not_disturb_its_neighbours(app: Redrive) -> None:
    tasks = [asyncio.create_task(app.submit("orders", n)) for n in range(20)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in results) == 19
    assert await _count(app) in (19, 20)


async def test_a_larger_single_message_goes_alone_when_allowed(make_app: MakeApp) -> None:
    async with make_app(**{"submit.body_bytes": 25 * 1024 * 1024}) as app:
        receipts = await asyncio.gather(
            app.submit("orders", "x" * 10_000_000), *(app.submit("orders", n) for n in range(5))
        )
        assert len({receipt.id for receipt in receipts}) == 6


async def test_an_app_may_be_used_from_one_event_loop_after_another(make_app: MakeApp) -> None:
    app = make_app()

    async def submit() -> None:
        async with app:
            await app.submit("orders", 1)

    await asyncio.to_thread(lambda: [asyncio.run(submit()) for _ in range(2)])
    async with app:
        assert await _count(app) == 2
