"""Control: switches that act on what already waits, with an audit; and why a message waits or died."""

from __future__ import annotations

import pytest

from redrive.core.errors import ConfigurationError, InvalidMessage
from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import Move
from redrive.core.limits import Rate
from redrive.core.store import WORKER_RECORDS, Store
from redrive.core.verdict import Bury, Reason, Settlement
from redrive.office.audit import AUDIT, Actor
from redrive.office.queues import NoQueue
from redrive.office.retention.notice import Notice
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    account,
    append,
    bury,
    complete,
    crash,
    dead,
    drain,
    entry,
    failure,
    hold,
    keys,
    retry,
    submit,
    take,
    take_one,
    tenants_of,
)
from tests.office.desks import make_office

ANN = Actor("ann@host", "cli")


async def why(store: Store, message_id: str) -> str:
    return await make_office(store).acting(ANN).messages.why(await account(store, message_id))


async def start_worker(store: Store, name: str = "w1", *queues: str) -> None:
    """Announce a worker, as one does when it starts."""
    document = {"queues": list(queues or ("orders",)), "host": "host", "pid": 1}
    await store.put_record(WORKER_RECORDS, name, document, expected=None, ttl_s=3600)


async def test_a_paused_tenants_backlog_waits_and_the_others_go_on(store: Store) -> None:
    await submit(store, 2, tenant="acme")
    await submit(store, 2, tenant="bolt")
    (lane,) = await make_office(store).acting(ANN).tenants.pause("acme")
    assert lane.state is LaneState.PAUSED
    assert tenants_of(await take(store)) == ["bolt", "bolt"]
    await make_office(store).acting(ANN).tenants.resume("acme")
    assert tenants_of(await take(store)) == ["acme", "acme"]


async def test_a_tenant_is_paused_in_all_its_queues_or_in_one(store: Store) -> None:
    for queue in ("orders", "mails", "other"):
        await submit(store, queue=queue, tenant="bolt" if queue == "other" else "acme")
    changed = await make_office(store).acting(ANN).tenants.pause("acme")
    assert [lane.queue for lane in changed] == ["mails", "orders"]
    await make_office(store).acting(ANN).tenants.resume("acme", "mails")
    assert [len(await take(store, queue=queue)) for queue in ("mails", "orders", "other")] == [1, 0, 1]


async def test_a_weight_and_a_cap_act_on_what_already_waits(store: Store) -> None:
    await submit(store, 10, tenant="acme")
    await submit(store, 10, tenant="bolt")
    await make_office(store).acting(ANN).tenants.set("acme", "orders", LaneChange(weight=2))
    assert tenants_of(await take(store, 9)) == ["acme"] * 6 + ["bolt"] * 3
    await make_office(store).acting(ANN).tenants.set("bolt", None, LaneChange(cap=4))
    assert tenants_of(await take(store, 20)).count("bolt") == 1


async def test_a_rate_acts_on_what_already_waits_until_it_is_removed(store: Store) -> None:
    await submit(store, 10)
    (lane,) = await make_office(store).acting(ANN).tenants.set("acme", None, LaneChange(rate=Rate(3, 60.0)))
    assert lane.rate == Rate(3, 60.0)
    assert len(await take(store)) == 3
    await make_office(store).acting(ANN).tenants.set("acme", None, LaneChange(unlimited=True))
    assert len(await take(store)) == 7


@pytest.mark.parametrize(
    "change",
    [
        LaneChange(),
        LaneChange(weight=0),
        LaneChange(weight=1_001),
        LaneChange(cap=-1),
        LaneChange(rate=Rate(1, 1.0), unlimited=True),
    ],
)
async def test_a_change_that_cannot_be_is_refused_and_not_audited(store: Store, change: LaneChange) -> None:
    await submit(store)
    with pytest.raises(ConfigurationError):
        await make_office(store).acting(ANN).tenants.set("acme", None, change)
    assert await store.read_journal(AUDIT) == []


async def test_a_name_that_is_none_is_refused(store: Store) -> None:
    with pytest.raises(InvalidMessage):
        await make_office(store).acting(ANN).tenants.pause("a b")
    with pytest.raises(NoQueue):
        await make_office(store).acting(ANN).tenants.pause("acme", "a b")


async def test_the_audit_keeps_what_was_before_and_after(store: Store) -> None:
    await submit(store)
    await make_office(store).acting(ANN).tenants.set("acme", None, LaneChange(weight=5, rate=Rate(20, 60.0)))
    intent, outcome = [row.document for row in await store.read_journal(AUDIT)]
    assert (intent["actor"], intent["verb"]) == ("ann@host", "set tenant")
    assert intent["subject"]["before"][0]["weight"] == 1
    after = outcome["result"]["after"][0]
    assert (after["weight"], after["rate"]) == (5, "20/min")


async def test_who_sees_a_payload_is_in_the_audit(store: Store) -> None:
    (one,) = await dead(store)
    await make_office(store).acting(ANN).letters.show(one, reveal=True)
    intent, outcome = [row.document for row in await store.read_journal(AUDIT)]
    assert (intent["verb"], intent["subject"]["ids"], outcome["ok"]) == ("reveal", [one], True)


async def test_why_a_message_that_is_not_due_waits(bench: Bench, store: Store) -> None:
    await start_worker(store)
    (delayed,) = await submit(store, delay_s=60)
    assert (await why(store, delayed)).startswith("it was delayed; it is due in 5")
    (failed,) = await submit(store)
    await retry(store, await take_one(store), delay_s=7_200)
    assert (await why(store, failed)).startswith("its attempt 1 failed; it is due in ")


async def test_why_a_due_message_waits(store: Store) -> None:
    first, second = await submit(store, 2)
    assert "no live worker has a handler for orders" in await why(store, first)
    await start_worker(store, "w2", "mails")
    assert "no live worker has a handler for orders" in await why(store, first)
    await start_worker(store)
    assert await why(store, first) == (
        "it is due and waits for its tenant's turn, beside 1 other message of acme"
    )
    await make_office(store).acting(ANN).tenants.set("acme", None, LaneChange(rate=Rate(20, 60.0)))
    assert (await why(store, second)).endswith("acme gets at most 20/min")


async def test_why_a_message_waits_that_people_or_limits_keep(store: Store) -> None:
    await start_worker(store)
    waiting, _ = await submit(store, 2)
    await make_office(store).acting(ANN).queues.pause("orders")
    assert await why(store, waiting) == "queue orders is paused: redrive queue resume orders"
    await make_office(store).acting(ANN).tenants.pause("acme")
    assert "; and tenant acme is paused: redrive tenant resume acme" in await why(store, waiting)
    await make_office(store).acting(ANN).queues.resume("orders")
    await make_office(store).acting(ANN).tenants.resume("acme")
    await make_office(store).acting(ANN).tenants.set("acme", None, LaneChange(cap=1))
    taken = await take_one(store)
    left = next(one for one in (waiting, _) if one != taken.message.id)
    assert "has 1 in flight, as many as its cap allows" in await why(store, left)


async def test_why_a_message_of_a_held_tenant_waits(store: Store) -> None:
    await start_worker(store)
    (one,) = await submit(store)
    await hold(store, await take_one(store), why="535 wrong password")
    told = await why(store, one)
    assert told.startswith("tenant acme is held (535 wrong password): one message tries in 5")


async def test_why_a_suspect_waits(store: Store) -> None:
    await start_worker(store)
    (one,) = await submit(store)
    await crash(store, await take_one(store))
    assert await why(store, one) == "its worker was lost 1 time; it waits to run alone"


async def test_who_holds_a_running_message_and_for_how_long(bench: Bench, store: Store) -> None:
    await start_worker(store)
    (one,) = await submit(store)
    await take_one(store)
    assert (await why(store, one)).startswith("worker w1 holds it for attempt 1, and is sure of it for ")
    await start_worker(store, "w2")
    assert (await why(store, one)).startswith("a worker holds it")
    bench.advance(60)
    assert "its lease ended" in await why(store, one)


@pytest.mark.parametrize("reason", Reason)
async def test_why_a_message_died_and_what_helps(store: Store, reason: Reason) -> None:
    (one,) = await submit(store)
    await bury(store, await take_one(store), reason=reason)
    told = await why(store, one)
    assert told.startswith(f"it is a dead letter ({reason}) after 1 attempt: no such order. ")
    assert ("redrive dlq redrive" in told) is (reason is not Reason.BOUNCED)


async def test_what_became_of_a_message_that_is_gone(store: Store) -> None:
    done, archived, discarded = await submit(store, 3)
    deliveries = await take(store)
    await complete(store, deliveries[0])
    await bury(store, *deliveries[1:])
    await store.remove("orders", keys([archived]), Move.ARCHIVE, actor="retention")
    await store.remove("orders", keys([discarded]), Move.DISCARD, actor="ann")
    assert await why(store, done) == "it was handed to its handler, which returned"
    assert (await why(store, archived)).startswith(
        "retention removed it (archive). The audit names its archive"
    )
    assert await why(store, discarded) == "ann removed it (discard)"


async def test_why_a_letter_died_tells_no_secret_and_a_command_that_is_safe_to_paste(store: Store) -> None:
    await append(store, entry(store, id="a; rm -rf b"))
    (delivery,) = await drain(store)
    reason = "451 password=hunter2 for anna@example.org"
    await store.settle([Settlement(delivery, Bury(Reason.EXHAUSTED, failure(delivery, reason=reason)))])
    told = await why(store, "a; rm -rf b")
    assert "hunter2" not in told
    assert "anna@" not in told
    assert told.endswith("redrive dlq redrive 'a; rm -rf b'")


def test_a_notice_of_what_left_has_a_command_that_is_safe_to_paste() -> None:
    (told,) = Notice("orders", 0, left=2, left_at=0, left_to="/old letters/a.jsonl.gz").sentences()
    assert told.endswith("redrive dlq restore '/old letters/a.jsonl.gz'")


async def test_an_id_with_digits_like_a_card_number_stays_whole_where_it_is_told(store: Store) -> None:
    one = entry(store, id="00000b32-0000-7000-8000-a09b280a72c2")
    await append(store, one)
    await bury(store, await take_one(store))
    shown = await make_office(store).acting(ANN).letters.show(one.message.id)
    assert shown.document.why.endswith(f"redrive dlq redrive {one.message.id}")
