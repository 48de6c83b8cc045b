"""What the rooms share: the office's verbs for whoever calls, and letters as the caller may see them.

The actor of the audit is the key, the scope is its tenant. Letters are read in slices, so that a page of
large ones is never whole in memory twice; in a list a large payload is replaced by its size, for masking
a page of them would take seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redrive.app import Redrive
from redrive.core.letters import DeadLetter, as_letter
from redrive.core.lifecycle import State
from redrive.core.ports import Store
from redrive.core.settings import OfficeSettings
from redrive.office.access import Permission
from redrive.office.audit import Actor
from redrive.office.emptiness import explain_empty
from redrive.office.filters import Filter, parse
from redrive.office.filters.guessing import masked_filter
from redrive.office.groups import Groups
from redrive.office.index import Found, Index
from redrive.office.masking import Mask, record_reveal
from redrive.office.operations import Operations
from redrive.office.operations.finding import Policy
from redrive.office.wire import letter_document
from redrive.web.access import Call
from redrive.web.limits import client_name
from redrive.web.problem_types import FORBIDDEN, NOT_FOUND
from redrive.web.problems import Refused

SLICE = 20
_LISTED_BYTES = 16 * 1024
_DLQ_ENDINGS = (":dlq", ".dlq")


@dataclass(frozen=True, slots=True)
class Office:
    """The office of one open store."""

    store: Store
    index: Index
    policy: Policy
    settings: OfficeSettings
    body_bytes: int
    mask: Mask

    @classmethod
    def of(cls, app: Redrive) -> Office:
        office = app.settings.office
        body_bytes = app.settings.submit.body_bytes
        return cls(app.store, app.index, app.policy, office, body_bytes, Mask.parse(office.masked))

    def operations(self, call: Call) -> Operations:
        """The verbs on operations, within the caller's tenant."""
        return Operations(
            self.store,
            actor_of(call),
            self.index,
            self.policy,
            self.settings,
            scope=call.credential.tenant,
        )

    def groups(self, call: Call) -> Groups:
        """The verbs on groups, within the caller's tenant."""
        return Groups(self.store, self.index, actor_of(call), call.credential.tenant)

    async def queue(self, call: Call, given: str) -> str:
        """The queue of this name, or of this dead-letter queue's name; Refused where there is none."""
        queue = await self.find_queue(call, given)
        if queue is None:
            raise Refused(NOT_FOUND, "there is no such queue: GET /admin/dlq/queues lists them")
        return queue

    async def find_queue(self, call: Call, given: str) -> str | None:
        """The same, None where the caller knows of none."""
        names = await self.store.queue_names()
        stripped = next((given.removesuffix(end) for end in _DLQ_ENDINGS if given.endswith(end)), given)
        for candidate in (given, stripped):
            if candidate in names and await self._knows(call, candidate):
                return candidate
        return None

    async def _knows(self, call: Call, queue: str) -> bool:
        tenant = call.credential.tenant
        return tenant is None or await self.store.lane(queue, tenant) is not None

    def filter(self, call: Call, text: str) -> Filter:
        """What the text means for this caller: without the permission to reveal, nothing that is masked."""
        asked = parse(text, self.store.now())
        return asked if call.credential.may(Permission.REVEAL) else masked_filter(asked, self.mask)

    async def empty(self, call: Call, asked: Filter, found: int) -> dict[str, Any] | None:
        """Why a filter finds nothing, of what the caller may see; None where it finds something."""
        if found or not asked.terms:
            return None
        return (await explain_empty(self.index, asked, scope=call.credential.tenant)).document

    async def may_reveal(self, call: Call, ids: Iterable[str]) -> None:
        """Refused without the permission; otherwise the audit says who sees these letters."""
        check_reveal(call)
        await record_reveal(self.store, actor_of(call), ids)

    async def letters(self, call: Call, found: Sequence[Found]) -> AsyncIterator[list[DeadLetter]]:
        """What the index found, slice by slice in its order; what is not dead any more is left out."""
        for begin in range(0, len(found), SLICE):
            some = found[begin : begin + SLICE]
            whole: dict[str, DeadLetter] = {}
            for queue in {one.queue for one in some}:
                ids = [one.id for one in some if one.queue == queue]
                for account in await self.store.accounts(queue, ids):
                    if account.state is State.DEAD and call.credential.sees(account.message.tenant):
                        whole[account.message.id] = as_letter(account)
            yield [whole[one.id] for one in some if one.id in whole]

    async def shown(self, call: Call, found: Sequence[Found], *, reveal: bool) -> list[dict[str, Any]]:
        """The documents of letters as the caller may see them."""
        if reveal:
            await self.may_reveal(call, [one.id for one in found])
        documents: list[dict[str, Any]] = []
        async for letters in self.letters(call, found):
            documents += await asyncio.to_thread(self._documents, letters, reveal)
        return documents

    def fit(self, document: Mapping[str, Any], *, reveal: bool) -> dict[str, Any]:
        """A document with or without masks."""
        return dict(document) if reveal else self.mask.document(document)

    def _documents(self, letters: Sequence[DeadLetter], reveal: bool) -> list[dict[str, Any]]:
        return [self.fit(letter_document(_brief(letter)), reveal=reveal) for letter in letters]


def actor_of(call: Call) -> Actor:
    """Who acts, as the audit names it: the key, and where it was used from."""
    key = call.credential
    return Actor(f"{key.name or key.role}#{key.id}", f"http {client_name(call.request)}")


def check_reveal(call: Call) -> None:
    """Refused unless the key's role may see payloads without masks."""
    if not call.credential.may(Permission.REVEAL):
        raise Refused(FORBIDDEN, f"a key with role {call.credential.role} has no permission to reveal")


def _brief(letter: DeadLetter) -> DeadLetter:
    size = len(letter.message.body)
    if size <= _LISTED_BYTES:
        return letter
    return replace(letter, message=replace(letter.message, body=b'{"leftOut":"%d bytes"}' % size))
