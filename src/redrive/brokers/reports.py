"""What became of re-driven messages, told to the ledger: it counts for their operation and their history.

A letter that was sent back is WAITING in the ledger, and nobody claims it there: the broker carries it. Its
consumer, or whoever collects it dead again, tells here. A letter may be back before the process that sent it
has marked it, and that process may have died: it is marked now. Each message is taken under a token made of
its name, so that whoever tells again goes on where a call without an answer, or a process that died, ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct

from redrive.core.errors import StoreUnavailable
from redrive.core.letters import Account, LetterKey
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lapse
from redrive.core.store import Store
from redrive.core.verdict import Bury, Release, Settlement, Verdict

_LEASE_S = 30.0
_UNMARKED = "whoever sent it back"


class Report(Struct, frozen=True, gc=False):
    """What is to become of one message in the ledger."""

    key: LetterKey
    verdict: Verdict
    operation: str | None = None
    actor: str | None = None


class Reports:
    """Tells one ledger."""

    def __init__(self, ledger: Store) -> None:
        self._ledger = ledger

    async def tell(self, queue: str, reports: Sequence[Report]) -> None:
        """Apply all; what the ledger no longer knows as sent back changes nothing.

        StoreUnavailable when one could not be applied: the broker may not forget its message yet.
        """
        reports = list({one.key: one for one in reports}.values())
        untold = await self._apply(queue, [(one, one.key) for one in reports])
        if not untold:
            return
        accounts = await self._accounts(queue, untold)
        await self._mark(queue, _open(untold, accounts), accounts)
        accounts = await self._accounts(queue, untold)
        found = [(one, _known_key(one, accounts)) for one in _open(untold, accounts)]
        untold = await self._apply(queue, found)
        left = _open(untold, await self._accounts(queue, untold))
        if left:
            raise StoreUnavailable(
                f"the ledger has not taken what became of {len(left)} messages of {queue}, such as "
                f"{left[0].key.id}: another process is at it, or was lost; it is told again"
            )

    async def let_go(self, lapsed: Sequence[Delivery]) -> list[Delivery]:
        """Reports that began and did not end: their messages wait again, and whoever has one tells it again.
        The rest of what lapsed is returned."""
        unfinished = [one for one in lapsed if one.lapse is Lapse.LOST]
        if unfinished:
            await self._ledger.settle([Settlement(one, Release(one.progress.due_at)) for one in unfinished])
        return [one for one in lapsed if one.lapse is not Lapse.LOST]

    async def _apply(self, queue: str, reports: Sequence[tuple[Report, LetterKey]]) -> list[Report]:
        """Settle what waits under these keys; the reports that were not applied."""
        taken = await asyncio.gather(
            *(self._ledger.take(queue, [key], _token(queue, key), _LEASE_S) for _, key in reports)
        )
        settlements = [
            Settlement(one, report.verdict)
            for (report, _), found in zip(reports, taken, strict=True)
            for one in found
        ]
        refused = await self._ledger.settle(settlements) if settlements else ()
        told = {one.delivery.message.id for one in settlements}.difference(refused)
        return [one for one, _ in reports if one.key.id not in told]

    async def _accounts(self, queue: str, reports: Sequence[Report]) -> Mapping[str, Account]:
        if not reports:
            return {}
        found = await self._ledger.accounts(queue, [one.key.id for one in reports])
        return {one.message.id: one for one in found}

    async def _mark(self, queue: str, reports: Sequence[Report], accounts: Mapping[str, Account]) -> None:
        """Those that are letters still; whoever sent them back may be marking them at this moment."""
        unmarked: dict[tuple[str | None, str], list[LetterKey]] = {}
        for report in reports:
            account = accounts.get(report.key.id)
            if account is not None and account.state is State.DEAD:
                who = report.operation, report.actor or _UNMARKED
                unmarked.setdefault(who, []).append(_known_key(report, accounts))
        for (operation, actor), letters in unmarked.items():
            await self._ledger.redrive(queue, letters, actor=actor, operation=operation)


def _open(reports: Sequence[Report], accounts: Mapping[str, Account]) -> list[Report]:
    """Those that still have to change something."""
    return [one for one in reports if _is_open(one, accounts.get(one.key.id))]


def _is_open(report: Report, account: Account | None) -> bool:
    """Whether a report is news. One of an earlier generation is not. A death is, unless it is a letter:
    whoever collected it looks again what it is by now."""
    dies, told = isinstance(report.verdict, Bury), report.key.generation or 0
    if account is None:
        return dies
    generation = account.progress.generation
    if generation > told:
        return False
    match account.state:
        case State.WAITING | State.CLAIMED:
            return True
        case State.DEAD:
            return generation == told - 1
        case State.DONE | State.REMOVED:
            return dies


def _known_key(report: Report, accounts: Mapping[str, Account]) -> LetterKey:
    """The message as the ledger has it: one that was restored from a copy may be some generations behind."""
    account = accounts.get(report.key.id)
    return report.key if account is None else LetterKey(report.key.id, account.progress.generation)


def _token(queue: str, key: LetterKey) -> str:
    name = f"{queue}/{key.id}/{key.generation}"
    return blake2b(name.encode(), digest_size=12).hexdigest()
