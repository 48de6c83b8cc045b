"""The stores of the runbook's scenarios, filled so that they show what its page shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage

import msgspec

from redrive import Submission
from redrive.core.failure import Kind
from redrive.core.fingerprint import fingerprint
from redrive.core.letters import DeadLetter
from redrive.core.store import WORKER_RECORDS, Store
from redrive.core.verdict import Reason
from redrive.mailbox import Mailbox
from tests.office.deaths import bury, letter
from tests.office.story.site import Site

QUEUE = "email:send"
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
TENANTS = ("acme", "cyberdyne", "globex", "hooli", "initech", "stark", "tyrell", "umbrella", "wayne", "wonka")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why letters died; they are of the tenants in turn, the youngest first."""

    why: str
    code: str | None
    reason: Reason = Reason.EXHAUSTED
    kind: Kind = Kind.TEMPORARY
    attempts: int = 5
    tenants: tuple[str, ...] = TENANTS

    def letters(
        self,
        store: Store,
        count: int,
        *,
        youngest_ms: int = 3 * MINUTE_MS + 5_000,
        apart_ms: int = MINUTE_MS,
        size: int = 20,
    ) -> Iterator[DeadLetter]:
        body = json.dumps({"to": "ana@customer.example", "text": "x" * size}).encode()
        for number in range(count):
            yield _spaced(
                letter(
                    store,
                    tenant=self.tenants[number % len(self.tenants)],
                    body=body,
                    reason=self.reason,
                    kind=self.kind,
                    code=self.code,
                    why=self.why,
                    fingerprint=fingerprint("Failure", self.code, self.why, "shop.send"),
                    attempts=self.attempts,
                    age_ms=youngest_ms + number * apart_ms,
                )
            )


BUSY = Cause("421 4.7.0 too many connections, try again later", "421")
TEMPLATE = Cause("FileNotFoundError: [Errno 2] No such file or directory: 'welcome.html'", None)
FULL = Cause("552 5.2.2 mailbox full", "552", Reason.BOUNCED, Kind.PERMANENT, 1)
LOST = Cause("the worker was lost while it ran this", None, Reason.WORKER_LOST, Kind.LOST, 3, ("hooli",))
MISFIT = Cause(
    "payload does not fit: Object missing required field `to`", None, Reason.POISON, Kind.PERMANENT, 1
)
BLOCKED = Cause("550 5.7.1 blocked as spam", "550", Reason.PERMANENT, Kind.PERMANENT, 1, ("initech",))


async def grow(site: Site) -> None:
    """A dead-letter queue that grows: four causes, one of which nobody has mended."""
    store = site.app.store
    site.start("worker", "shop:app", "--log-level", "error")
    orders = [Submission({"number": number}, TENANTS[number % 3]) for number in range(12)]
    await site.app.submit_many(QUEUE, orders)
    await site.wait_until(lambda: _dead(store, 12), "the orders without a recipient are dead")
    for cause, count in ((BUSY, 60), (FULL, 36), (TEMPLATE, 24)):
        await bury(store, list(cause.letters(store, count)))


async def age(store: Store) -> None:
    """Letters that nobody archived for more than a month."""
    await bury(store, list(FULL.letters(store, 800, youngest_ms=DAY_MS, apart_ms=15 * MINUTE_MS, size=1_500)))
    await bury(
        store, list(FULL.letters(store, 1_200, youngest_ms=31 * DAY_MS, apart_ms=MINUTE_MS, size=1_500))
    )


async def monopolise(site: Site) -> None:
    """One tenant's slow orders hold all ten places; others wait."""
    site.start("worker", "shop:app", "--log-level", "error")
    slow = {"to": "ana@customer.example", "slow": True}
    await site.app.submit_many(QUEUE, [Submission(slow, "globex")] * 40)
    await site.wait_until(lambda: _running(site.app.store, 10), "all places are taken")
    quick = {"to": "ana@customer.example"}
    others = ("acme", "cyberdyne", "hooli")
    await site.app.submit_many(QUEUE, [Submission(quick, others[number % 3]) for number in range(9)])


async def lose_relay(site: Site, relay: Mailbox) -> None:
    """A relay that refused forty mails for now and then went away; twelve more have come since."""
    await relay.open()
    site.more |= {"REDRIVE_MAIL": relay.url, "REDRIVE_RETRY_ATTEMPTS": "1"}
    site.start("worker", "--mail", "--log-level", "error")
    store = site.app.store
    for number in range(40):
        await site.app.mail.submit(_mail(f"fail-1-then-ok+{number}@b.example"), tenant=TENANTS[number % 4])
    await site.wait_until(lambda: _dead(store, 40), "what the relay refused is dead")
    await relay.close()
    for number in range(12):
        await site.app.mail.submit(_mail(f"ok+{number}@b.example"), tenant=TENANTS[number % 4])
    await site.wait_until(lambda: _delayed(store, 12), "what cannot reach the relay waits")


async def storm(site: Site) -> None:
    """Orders that kill their worker, and orders that no longer fit their handler."""
    store = site.app.store
    await bury(store, list(LOST.letters(store, 6)))
    await bury(store, list(MISFIT.letters(store, 30)))
    site.start("worker", "shop:app", "--log-level", "error")
    await site.wait_until(lambda: _is_served(store), "the worker has announced itself")


async def flood(site: Site) -> None:
    """One tenant hands in three thousand orders at once, and a hundred of them died already."""
    store, order = site.app.store, {"to": "ana@customer.example", "seconds": 0.1}
    for _ in range(6):
        await site.app.submit_many(QUEUE, [Submission(order, "initech")] * 500)
    await bury(store, list(BLOCKED.letters(store, 100)))
    site.start("worker", "shop:app", "--log-level", "error")
    await site.wait_until(lambda: _running(store, 10), "it runs")
    await site.app.submit_many(QUEUE, [Submission(order, TENANTS[number % 3]) for number in range(9)])

    async def had_their_turns() -> bool:
        return [one.done for one in await store.lanes_of(QUEUE, TENANTS[:3])] == [3, 3, 3]

    await site.wait_until(had_their_turns, "the orders of the others are done")


def _spaced(one: DeadLetter) -> DeadLetter:
    """The same with its attempts one second apart, then two, four, …, as retries are."""
    last = len(one.failures) - 1
    began = [one.died_at - 1_000 * (2**last - 2**number) for number in range(last + 1)]
    failures = tuple(replace(each, at=at) for each, at in zip(one.failures, began, strict=True))
    return replace(
        one,
        message=msgspec.structs.replace(one.message, enqueued_at=began[0] - 1_000),
        failures=failures,
    )


def _mail(to: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@shop.example", to, "Your order"
    mail.set_content("It is on its way.")
    return mail


async def _delayed(store: Store, count: int) -> bool:
    return sum([one.scheduled for one in await store.queues()]) == count


async def are_done(store: Store, count: int) -> bool:
    """Whether so many messages are done."""
    return sum([one.published for one in await store.queues()]) >= count


async def _dead(store: Store, count: int) -> bool:
    return sum([one.dlq for one in await store.queues()]) == count


async def _is_served(store: Store) -> bool:
    return bool(await store.list_records(WORKER_RECORDS))


async def _running(store: Store, count: int) -> bool:
    return sum([one.processing for one in await store.queues()]) >= count
