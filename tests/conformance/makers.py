"""Small makers, so that the tests read like sentences.

An entry is due a second before the store's present by default: the clock of this process and that of a
server may differ by a few milliseconds, and a test must not depend on who is ahead.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from redrive.core.failure import Failure, Kind
from redrive.core.lanes import Lane
from redrive.core.letters import Account, DeadLetter, LetterKey, Listed, MessagePhase
from redrive.core.limits import Rate
from redrive.core.message import Delivery, Entry, Message, Track, expiry
from redrive.core.ports import APPEND_BYTES, Claim, Claimed, Receipt
from redrive.core.store import QueueCounts, Store
from redrive.core.verdict import Bury, Complete, HoldLane, Reason, Release, RetryAt, Settlement, Verdict

QUEUE = "orders"
TENANT = "acme"
DAY_S = 86_400.0
MINUTE_S = 60.0
_PAST_MS = 1_000

_numbers = itertools.count(1)


def new_id() -> str:
    """An id like those of submitters: ids made later sort later."""
    return f"{next(_numbers):08x}-0000-7000-8000-{uuid.uuid4().hex[:12]}"


def keys(ids: Iterable[str]) -> list[LetterKey]:
    """The letters of these ids, whichever generation they are of."""
    return [LetterKey(one) for one in ids]


def new_token() -> str:
    return uuid.uuid4().hex


def entry(
    store: Store,
    *,
    id: str | None = None,  # noqa: A002 - named as the field it fills
    queue: str = QUEUE,
    tenant: str = TENANT,
    body: bytes = b"{}",
    track: Track = Track.MAIN,
    dedupe: str | None = None,
    delay_s: float = 0.0,
    ttl_s: float = DAY_S,
    headers: Mapping[str, str] | None = None,
    parent: str | None = None,
    digest: bytes | None = None,
) -> Entry:
    """An entry due `delay_s` from now."""
    enqueued_at = store.now() - _PAST_MS
    due_at = enqueued_at + round(delay_s * 1000)
    message = Message(
        id or new_id(), queue, tenant, body, enqueued_at, ttl_s, track, dedupe, dict(headers or {}), parent
    )
    return Entry(message, due_at, expiry(enqueued_at, due_at, ttl_s), digest)


async def append(store: Store, *entries: Entry) -> list[Receipt]:
    """Append each entry as a group of its own, in one call."""
    return [receipt for group in await store.append([[one] for one in entries]) for receipt in group]


async def append_group(store: Store, *entries: Entry) -> list[Receipt]:
    """Append the entries as one group."""
    (receipts,) = await store.append([entries])
    return receipts


async def submit(store: Store, count: int = 1, **fields: object) -> list[str]:
    """Append `count` entries made alike; their ids in order."""
    entries = [entry(store, **fields) for _ in range(count)]  # type: ignore[arg-type]
    for start in range(0, count, 1_000):
        await store.append([[one] for one in entries[start : start + 1_000]])
    return [one.message.id for one in entries]


async def claim(
    store: Store,
    limit: int = 100,
    *,
    queue: str = QUEUE,
    token: str | None = None,
    lease_s: float = 30.0,
    max_bytes: int = APPEND_BYTES,
    rate: Rate | None = None,
    alone: bool = False,
    fair: bool = True,
) -> Claimed:
    """One claim under a token of its own unless one is given."""
    asked = Claim(queue, token or new_token(), limit, lease_s, max_bytes, rate=rate, alone=alone, fair=fair)
    return await store.claim(asked)


async def take(store: Store, limit: int = 100, *, queue: str = QUEUE, alone: bool = False) -> list[Delivery]:
    """The deliveries of one claim."""
    return list((await claim(store, limit, queue=queue, alone=alone)).deliveries)


async def take_one(store: Store, *, queue: str = QUEUE, alone: bool = False) -> Delivery:
    """The only delivery of a claim for one."""
    (delivery,) = await take(store, 1, queue=queue, alone=alone)
    return delivery


async def drain(store: Store, *, limit: int = 100, queue: str = QUEUE) -> list[Delivery]:
    """Claim until nothing is handed out any more; the deliveries in hand-out order."""
    taken: list[Delivery] = []
    while batch := await take(store, limit, queue=queue):
        taken.extend(batch)
    return taken


async def settle(store: Store, verdict: Verdict, *deliveries: Delivery) -> AbstractSet[str]:
    """The same verdict for each delivery; the refused ids."""
    return await store.settle([Settlement(delivery, verdict) for delivery in deliveries])


async def complete(store: Store, *deliveries: Delivery) -> AbstractSet[str]:
    return await settle(store, Complete(), *deliveries)


async def retry(store: Store, *deliveries: Delivery, delay_s: float = 0.0) -> AbstractSet[str]:
    """Each delivery failed and is due again `delay_s` from now."""
    return await store.settle(
        [Settlement(one, RetryAt(soon(store, delay_s), failure(one))) for one in deliveries]
    )


async def release(store: Store, *deliveries: Delivery, delay_s: float = 0.0) -> AbstractSet[str]:
    """Each delivery is given back."""
    return await settle(store, Release(soon(store, delay_s)), *deliveries)


async def crash(store: Store, *deliveries: Delivery) -> AbstractSet[str]:
    """The worker of each delivery was lost: all become suspects."""
    return await store.settle(
        [Settlement(one, Release(soon(store), failure(one, kind=Kind.LOST))) for one in deliveries]
    )


async def hold(
    store: Store, *deliveries: Delivery, probe_s: float = MINUTE_S, why: str = "535 wrong password"
) -> AbstractSet[str]:
    """Each delivery's lane is held, to be probed `probe_s` from now."""
    return await settle(store, HoldLane(soon(store, probe_s), why), *deliveries)


async def bury(
    store: Store, *deliveries: Delivery, reason: Reason = Reason.PERMANENT, why: str = "no such order"
) -> AbstractSet[str]:
    return await store.settle([Settlement(one, Bury(reason, failure(one, why))) for one in deliveries])


async def dead(store: Store, count: int = 1, **fields: object) -> list[str]:
    """Ids of `count` fresh dead letters, oldest first."""
    ids = await submit(store, count, **fields)
    queue = str(fields.get("queue", QUEUE))
    for delivery in await drain(store, queue=queue):
        await bury(store, delivery)
    return ids


def failure(
    delivery: Delivery,
    reason: str = "no route to host",
    *,
    kind: Kind = Kind.TEMPORARY,
    traceback: str | None = None,
) -> Failure:
    """What a worker records of this delivery's attempt."""
    at = delivery.message.enqueued_at
    return Failure(
        at,
        delivery.progress.attempts,
        kind,
        reason,
        "E42",
        fingerprint="f" * 16,
        traceback=traceback,
        duration_ms=1_250,
        delay_ms=4_000,
        delay_asked=True,
    )


def soon(store: Store, delay_s: float = 0.0) -> int:
    """An instant that is surely due when `delay_s` is 0 (see the head of this file)."""
    return store.now() - _PAST_MS + round(delay_s * 1000)


def ids_of(deliveries: Sequence[Delivery] | Claimed) -> list[str]:
    if isinstance(deliveries, Claimed):
        deliveries = deliveries.deliveries
    return [delivery.message.id for delivery in deliveries]


def tenants_of(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.message.tenant for delivery in deliveries]


async def account(store: Store, message_id: str) -> Account:
    """The account of a message that must be known."""
    found = await store.get(message_id)
    assert found is not None, f"{message_id} is unknown to the store"
    return found


async def letters(store: Store, queue: str | None = QUEUE) -> list[DeadLetter]:
    """All dead letters, over all pages."""
    found: list[DeadLetter] = []
    cursor = None
    while True:
        page = await store.letters(queue, after=cursor)
        found.extend(page.letters)
        cursor = page.cursor
        if cursor is None:
            return found


async def listed(
    store: Store, phase: MessagePhase, *, queue: str = QUEUE, tenant: str | None = None, limit: int = 500
) -> list[Listed]:
    """All messages of a phase, over all pages."""
    found: list[Listed] = []
    cursor = None
    while True:
        page = await store.messages(queue, phase, tenant=tenant, after=cursor, limit=limit)
        assert len(page.messages) <= limit
        found.extend(page.messages)
        cursor = page.cursor
        if cursor is None:
            return found


async def lane(store: Store, tenant: str = TENANT, *, queue: str = QUEUE) -> Lane:
    """The lane of a tenant that must have one."""
    (found,) = [one for one in await store.lanes(queue) if one.tenant == tenant]
    return found


async def counts(store: Store, queue: str = QUEUE) -> QueueCounts:
    (found,) = [one for one in await store.queues() if one.queue == queue]
    return found
