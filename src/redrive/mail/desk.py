"""Where mails are handed in and asked about.

Checks and renders each mail once, on the way in, and makes the one message that carries it. Asked about a
mail, it answers with the state of each recipient. Never sends: that is the gateway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from enum import StrEnum
from hashlib import blake2b

from redrive.core.grants import SenderDomains
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.core.message import Entry, Message, check_dedupe, check_tenant, check_ttl, expiry
from redrive.core.ports import Ledger, Receipt
from redrive.core.verdict import Reason
from redrive.mail import stored as storing
from redrive.mail.stored import QUEUE, Stored
from redrive.mail.writing.addresses import Address
from redrive.mail.writing.checked import check
from redrive.mail.writing.mail import InvalidMail, Mail, Problem, encode, make_message_id
from redrive.mail.writing.parse import authors, from_email_message
from redrive.mail.writing.render import render

ANY_DOMAIN = SenderDomains()


class RecipientState(StrEnum):
    """How far the mail is for one recipient."""

    QUEUED = "queued"
    SENDING = "sending"
    RETRYING = "retrying"
    SENT = "sent"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Recipient:
    """One recipient's state; its account has every attempt, None before the fan-out."""

    address: str
    state: RecipientState
    account: Account | None


@dataclass(frozen=True, slots=True)
class MailStatus:
    """A mail and its recipients. `current` is what carries it now, after edits."""

    account: Account
    current: Account
    recipients: tuple[Recipient, ...]

    @property
    def tenant(self) -> str:
        return self.account.message.tenant


class Desk:
    """The mail desk of one app. `append` is the queue's way in; `ttl_s` is how long a mail may be tried, and
    `senders` the domains that a tenant may send from."""

    def __init__(
        self,
        *,
        append: Callable[[Sequence[Entry]], Awaitable[list[Receipt]]],
        ledger: Callable[[], Awaitable[Ledger]],
        now: Callable[[], Awaitable[int]],
        new_id: Callable[[], str],
        ttl_s: Callable[[], float],
        senders: Callable[[str], SenderDomains],
    ) -> None:
        self.append = append
        self.now = now
        self._ledger = ledger
        self._new_id = new_id
        self._ttl_s = ttl_s
        self._senders = senders

    async def submit(
        self,
        mail: Mail | EmailMessage,
        *,
        tenant: str,
        dedupe: str | None = None,
        ttl: timedelta | float | None = None,
    ) -> Receipt:
        """Accept one mail; returns after the durable write. Raises InvalidMail, Conflict, StoreError."""
        entry = self.entry(mail, tenant=tenant, now=await self.now(), dedupe=dedupe, ttl=ttl)
        return (await self.append([entry]))[0]

    def entry(
        self,
        mail: Mail | EmailMessage,
        *,
        tenant: str,
        now: int,
        senders: SenderDomains = ANY_DOMAIN,
        dedupe: str | None = None,
        digest: bytes | None = None,
        ttl: timedelta | float | None = None,
    ) -> Entry:
        """A mail that may be appended, rendered at `now`; InvalidMail lists every problem.

        `senders` are the domains that the caller may send from, besides what its tenant may. `digest` is what
        the dedupe key stands for; without one, the mail's hash.
        """
        mail_id = self._new_id()
        check_tenant(tenant)
        stored = _prepare(mail, mail_id, now, (self._senders(tenant), senders))
        ttl_s = self._ttl_s() if ttl is None else check_ttl(ttl)
        message = Message(
            id=mail_id,
            queue=QUEUE,
            tenant=tenant,
            body=storing.encode(stored),
            enqueued_at=now,
            ttl_s=ttl_s,
            dedupe=None if dedupe is None else check_dedupe(dedupe),
            headers=stored.headers(),
        )
        if dedupe is not None and digest is None:
            digest = _digest(mail)
        return Entry(message, now, expiry(now, now, ttl_s), digest)

    async def find(self, mail_id: str) -> MailStatus | None:
        """A mail with the state of each recipient; None when it is not known or is no mail."""
        ledger = await self._ledger()
        account = await ledger.get(mail_id)
        if account is None or account.message.queue != QUEUE or account.message.parent is not None:
            return None
        current = await _current(ledger, account)
        return MailStatus(account, current, await _recipients(ledger, current))


def _check_senders(named: Sequence[Address], allowed: Sequence[SenderDomains]) -> None:
    """InvalidMail when the mail names a sender that its tenant or its key may not send as."""
    for domains in allowed:
        if not all(domains.allows(one.domain) for one in named):
            raise InvalidMail([Problem("from", f"is not of a domain that you may send from: {domains}")])


def _check_type(mail: object) -> Mail:
    if not isinstance(mail, Mail):
        kind = type(mail).__name__
        raise InvalidMail([Problem("mail", f"is of type {kind}: give a Mail or an EmailMessage")])
    return mail


def _prepare(mail: Mail | EmailMessage, mail_id: str, now: int, allowed: Sequence[SenderDomains]) -> Stored:
    date = datetime.fromtimestamp(now // 1000, UTC)
    if isinstance(mail, EmailMessage):
        stored = from_email_message(mail, mail_id=mail_id, date=date)
        _check_senders(authors(mail), allowed)
        return stored
    checked = check(_check_type(mail))
    _check_senders(checked.authors, allowed)
    message_id = make_message_id(mail_id, checked.sender.domain)
    return storing.store(
        render(checked, message_id=message_id, date=date),
        checked.sender,
        checked.recipients,
        message_id,
        checked.subject,
        tags=checked.tags,
        smtputf8=checked.smtputf8,
    )


def _digest(mail: Mail | EmailMessage) -> bytes:
    content = mail.as_bytes() if isinstance(mail, EmailMessage) else encode(mail)
    return blake2b(content, digest_size=16).digest()


async def _current(ledger: Ledger, account: Account) -> Account:
    """What carries a mail that was edited, perhaps more than once."""
    while account.replaced_by is not None:
        edited = await ledger.get(account.replaced_by)
        if edited is None or edited.message.queue != QUEUE:
            break
        account = edited
    return account


async def _recipients(ledger: Ledger, account: Account) -> tuple[Recipient, ...]:
    if "to" in account.message.headers:
        return (_recipient(account),)
    children = await ledger.family(account.message.id)
    if not children:
        return _not_fanned_out(account)
    known = {one.message.id for one in children}
    return tuple(_recipient(one) for one in children if one.replaced_by not in known)


def _recipient(account: Account) -> Recipient:
    return Recipient(account.message.headers.get("to", ""), _state(account), account)


def _state(account: Account) -> RecipientState:
    match account.state:
        case State.WAITING:
            tried = account.progress.attempts or account.failures
            return RecipientState.RETRYING if tried else RecipientState.QUEUED
        case State.CLAIMED:
            return RecipientState.SENDING
        case State.DONE:
            return RecipientState.SENT
        case State.DEAD:
            uncertain = account.reason is Reason.UNCERTAIN
            return RecipientState.UNCERTAIN if uncertain else RecipientState.FAILED
        case State.REMOVED:
            return RecipientState.REMOVED


def _not_fanned_out(account: Account) -> tuple[Recipient, ...]:
    if not account.message.body:
        return ()
    state = _state(account)
    state = RecipientState.QUEUED if state is RecipientState.SENDING else state
    return tuple(Recipient(one, state, None) for one in storing.decode(account.message.body).to)
