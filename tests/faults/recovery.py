"""What the fault tests share: dead letters, re-driving under fire, the return of what was held, a summary."""

from __future__ import annotations

import msgspec

from redrive.core.lifecycle import State
from redrive.core.verdict import Reason
from tests.conformance import makers
from tests.faults.handlers import ORDERS, PLAIN
from tests.faults.ledger import Plan
from tests.faults.processes import Site

RESUMED_S = 5.0
SLACK_S = 1.0


async def bury(site: Site, count: int, plan: Plan) -> list[str]:
    """So many dead letters, whose handler does as the plan says once they come back."""
    store = site.app.store
    ids = await makers.submit(store, count, body=msgspec.json.encode(plan))
    while batch := await makers.take(store, 500):
        await makers.bury(store, *batch)
    site.note_accepted(ids, plan)
    return ids


async def redrive_all(site: Site) -> None:
    """Each letter goes back once, as its second generation."""
    for queue in (ORDERS, PLAIN):
        page = await site.app.store.letters(queue)
        ids = [letter.message.id for letter in page.letters if letter.progress.generation == 0]
        if ids:
            await site.app.store.redrive(queue, makers.keys(ids), actor="test")


async def wait_recovery(site: Site, lease_s: float) -> None:
    """After the last fault what was held returns within the lease + 1 s, with nobody's help."""
    held = [message_id for message_id, _ in site.evidence.held[-1]]

    async def returned() -> bool:
        accounts = [await site.app.store.get(message_id) for message_id in held]
        return all(
            account is None or account.state is not State.CLAIMED or account.progress.crashes > 0
            for account in accounts
        )

    what = f"{len(held)} leases returned"
    with site.within(lease_s + 1.0 + SLACK_S, what):
        await site.wait_until(returned, what)


def print_summary(site: Site, rounds: int) -> None:
    evidence = site.evidence
    lost = sum(letter.reason is Reason.WORKER_LOST for letter in evidence.letters)
    print(
        f"{rounds} rounds: {len(evidence.accepted)} accepted, {sum(map(evidence.handovers, evidence.lines))} "
        f"hand-overs, {evidence.repeated} repeated of {sum(map(len, evidence.held))} in flight (at most "
        f"{max(map(len, evidence.held), default=0)} at once), {len(evidence.letters)} dead letters, "
        f"{lost} worker lost"
    )
