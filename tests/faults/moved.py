"""What must be true of an operation's letters and of its rows in the audit, whatever happened to it."""

from __future__ import annotations

from collections import Counter

from redrive.core.store import Store
from redrive.office.audit import Query, read
from tests.faults.processes import Site
from tests.office.desks import desk


async def told(site: Site, operation_id: str) -> bool:
    """Whether it has ended and its outcome stands in the audit."""
    return (await desk(site.app.store).show(operation_id)).operation.told


async def check_brought_back(site: Site, ids: list[str], operations: list[str]) -> None:
    """Each letter is done in its second generation, moved by one operation, and counted for that one."""
    accounts = site.evidence.accounts
    assert accounts.keys() == set(ids)
    moves = Counter(one.operation for account in accounts.values() for one in account.redrives)
    assert all(len(account.redrives) == 1 for account in accounts.values())
    assert all(account.progress.generation == 1 for account in accounts.values())
    for operation in operations:
        assert (await site.app.store.tally(operation)).moved == moves[operation]
    assert sum(moves[operation] for operation in operations) == len(ids)


async def check_audit(store: Store, operation_id: str) -> None:
    """Each row once, in order."""
    rows = [row.document["row"] async for row in read(store, Query(action=operation_id))]
    assert rows == ["intent", "frozen", "outcome"]
