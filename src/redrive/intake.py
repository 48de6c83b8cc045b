"""Where an app takes messages in: what a developer hands over becomes entries, those of one call of one
instant, and goes to the submitter of the open store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from redrive.core.errors import InvalidMessage
from redrive.core.message import Entry, check_queue
from redrive.core.ports import Receipt
from redrive.engine.entries import Submission, check_submission, make_entry
from redrive.opening import Openings

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.core.store import Store


class AppIntake:
    """The submitting of one app."""

    def __init__(self, app: Redrive, openings: Openings) -> None:
        self._app = app
        self._openings = openings

    async def submit(self, queue: str, submission: Submission[object]) -> Receipt:
        """Accept one message."""
        opened = await self._openings.ready()
        make = self._maker(opened.store, check_queue(queue))
        return (await opened.submitter.submit([make(submission)]))[0]

    async def submit_many(self, queue: str, submissions: Iterable[Submission[object]]) -> list[Receipt]:
        """Accept a batch, all or nothing; an error names the index."""
        opened = await self._openings.ready()
        make = self._maker(opened.store, check_queue(queue))
        entries = []
        for index, submission in enumerate(submissions):
            check_submission(submission, index)
            try:
                entries.append(make(submission))
            except InvalidMessage as error:
                raise InvalidMessage(error.problem, index) from error
        return await opened.submitter.submit(entries)

    async def append(self, entries: Sequence[Entry]) -> list[Receipt]:
        """Accept entries that are already made and checked."""
        return await (await self._openings.ready()).submitter.submit(entries)

    def _maker(self, store: Store, queue: str) -> Callable[[Submission[object]], Entry]:
        """What makes the entries of one call."""
        ttl_s, settings, now = self._app.policy(queue).ttl_s, self._app.settings.submit, store.now()
        return lambda submission: make_entry(queue, submission, ttl_s=ttl_s, settings=settings, now=now)
