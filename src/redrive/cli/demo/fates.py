"""Mails that were handed in, followed over HTTP until each recipient's fate is known.

What is counted is what the gateway answers about these mails and no others, so the figures can be held
against the other side's inbox. Asks only about mails that have not ended.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redrive.cli.demo.story import Figures, Sentence
from redrive.cli.demo.traffic import ApiClient
from redrive.cli.output import clean, duration
from redrive.core.redaction import redact
from redrive.mail.desk import RecipientState

_POLL_S = 0.4
_REMEMBERED = 100
_COUNTED = {
    RecipientState.QUEUED: "waiting",
    RecipientState.SENDING: "waiting",
    RecipientState.SENT: "delivered",
    RecipientState.RETRYING: "retrying",
    RecipientState.FAILED: "dead",
    RecipientState.UNCERTAIN: "dead",
    RecipientState.REMOVED: "dead",
}
_OPEN = frozenset({RecipientState.QUEUED, RecipientState.SENDING, RecipientState.RETRYING})


@dataclass(slots=True)
class _Recipient:
    tenant: str
    state: RecipientState = RecipientState.QUEUED
    attempts: int = 0


class Fates:
    """The mails of one demonstration; `tell` hears what happens to them."""

    def __init__(self, clients: Mapping[str, ApiClient], tell: Callable[[Sentence], None]) -> None:
        self.latest: deque[Sentence] = deque(maxlen=_REMEMBERED)
        self.mails = 0
        self._clients = clients
        self._tell = tell
        self._open: dict[str, str] = {}
        self._recipients: dict[tuple[str, str], _Recipient] = {}

    def accept(self, tenant: str, answer: Mapping[str, Any]) -> None:
        """A mail that the gateway has taken."""
        self.mails += 1
        self._open[answer["id"]] = tenant
        for address in answer["recipients"]:
            self._recipients[answer["id"], address] = _Recipient(tenant)

    @property
    def by_tenant(self) -> dict[str, Figures]:
        """The figures as last heard."""
        figures: dict[str, Figures] = defaultdict(Figures)
        for one in self._recipients.values():
            counted = _COUNTED[one.state]
            setattr(figures[one.tenant], counted, getattr(figures[one.tenant], counted) + 1)
        return figures

    async def follow(self) -> None:
        """Ask about every mail that has not ended, again and again."""
        while True:
            await asyncio.gather(*(self._ask(*each) for each in self._clients.items()))
            await asyncio.sleep(_POLL_S)

    async def settled(self, patience_s: float) -> None:
        """Return once `follow` has seen every mail end, at the latest after `patience_s`."""
        try:
            async with asyncio.timeout(patience_s):
                while self._open:  # noqa: ASYNC110 - `follow` closes them, and signals nothing
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return

    async def _ask(self, tenant: str, client: ApiClient) -> None:
        for mail_id in [one for one, owner in self._open.items() if owner == tenant]:
            document = await client.find(mail_id)
            if document is None or self._hear(mail_id, document["recipients"]):
                self._open.pop(mail_id, None)

    def _hear(self, mail_id: str, recipients: Sequence[Mapping[str, Any]]) -> bool:
        """Take in an answer; whether every recipient's fate is known."""
        for heard in recipients:
            known = self._recipients[mail_id, heard["address"]]
            known.state = RecipientState(heard["status"])
            for sentence in _sentences(known, heard):
                self.latest.append(sentence)
                self._tell(sentence)
            known.attempts = len(heard["attempts"])
        return not any(heard["status"] in _OPEN for heard in recipients)


def _sentences(known: _Recipient, heard: Mapping[str, Any]) -> Iterator[Sentence]:
    """What was not known before, an attempt a sentence."""
    attempts: Sequence[Mapping[str, Any]] = heard["attempts"]
    for index in range(known.attempts, len(attempts)):
        attempt = attempts[index]
        last = index == len(attempts) - 1
        before = attempts[index - 1]["timestamp"] if index else None
        after = f" after {_between(before, attempt['timestamp'])}" if before else ""
        who = clean(f"{known.tenant} to {heard['address']}")
        if attempt["result"] == "sent":
            again = f" on attempt {attempt['attempt']}{after}" if index else ""
            yield Sentence(f"{who} delivered{again}", "green" if index else "dim")
            continue
        dead = last and known.state not in _OPEN
        what = "is dead" if dead else f"attempt {attempt['attempt']} failed{after}"
        yield Sentence(f"{who} {what}: {redact(clean(attempt['reason']))}", "red" if dead else "yellow")


def _between(earlier: str, later: str) -> str:
    gap = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    return duration(round(gap.total_seconds() * 1000))
