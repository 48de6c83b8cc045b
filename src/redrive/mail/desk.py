"""Where mails are handed in and asked about.

Checks and renders each mail once, on the way in, and makes the one message that carries it. Asked about a
mail, it tells the state of each recipient. Never sends: that is the gateway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from enum import StrEnum
from hashlib import blake2b

from redrive.core.errors import InvalidMessage
from redrive.core.grants import SenderDomains
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.core.message import Entry, Message, check_dedupe, check_tenant, check_ttl, expiry
from redrive.core.ports import Ledger, Receipt
from redrive.core.verdict import Reason
from redrive.mail import stored as storing
from redrive.mail.stored import QUEUE, Stored
from redrive.mail.writing.addresses import Address
from redrive.mail.writing.checking import check
from redrive.mail.writing.mail import InvalidMail, Mail, Problem, encode, make_message_id
from redrive.mail.writing.parse import from_email_message
from redrive.mail.writing.render import render

ANY_DOMAIN = SenderDomains()


@dataclass(frozen=True, slots=True)
class Post:
    """What the desk asks of the app: the queue's way in, the ledger, the clock, ids, the time to live,
    and the domains that a tenant may send from.
    """

    append: Callable[[Sequence[Entry]], Awaitable[list[Receipt]]]
    ledger: Callable[[], Awaitable[Ledger]]
    now: Callable[[], Awaitable[int]]
    new_id: Callable[[], str]
    ttl_s: Callable[[], float]
    senders: Callable[[str], SenderDomains]


@dataclass(frozen=True, slots=True)
class MailRequest:
    """One mail to hand in. `digest` is what its idempotency key stands for; without one, the mail's hash."""

    mail: Mail | EmailMessage
    idempotency_key: str | None = None
    digest: bytes | None = None
    ttl: timedelta | float | None = None


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
    """The mail desk of one app."""

    def __init__(self, post: Post) -> None:
        self._post = post

    async def submit(
        self,
        mail: Mail | EmailMessage,
        *,
        tenant: str,
        dedupe: str | None = None,
        ttl: timedelta | float | None = None,
    ) -> Receipt:
        """Accept one mail; returns after the durable write. Raises InvalidMail, Conflict, StoreError."""
        return (await self.submit_many([MailRequest(mail, dedupe, None, ttl)], tenant=tenant))[0]

    async def submit_many(
        self,
        requests: Sequence[MailRequest],
        *,
        tenant: str,
        senders: SenderDomains = ANY_DOMAIN,
    ) -> list[Receipt]:
        """Accept mails in one durable write, all or nothing; InvalidMail lists every problem of each.

        `senders` are the domains that the caller may send from, besides what its tenant may.
        """
        check_tenant(tenant)
        allowed = (self._post.senders(tenant), senders)
        now = await self._post.now()
        entries: list[Entry] = []
        refused: list[InvalidMail] = []
        for index, request in enumerate(requests):
            try:
                entries.append(self._entry(request, tenant, now, allowed))
            except InvalidMail as error:
                refused.append(InvalidMail(error.problems, index if len(requests) > 1 else None))
        if refused:
            raise refused[0] if len(refused) == 1 else InvalidMails(refused)
        return await self._post.append(entries)

    async def find(self, mail_id: str) -> MailStatus | None:
        """A mail with the state of each recipient; None when it is not known or is no mail."""
        ledger = await self._post.ledger()
        account = await ledger.get(mail_id)
        if account is None or account.message.queue != QUEUE or account.message.parent is not None:
            return None
        current = await _current(ledger, account)
        return MailStatus(account, current, await _recipients(ledger, current))

    def _entry(self, request: MailRequest, tenant: str, now: int, allowed: Sequence[SenderDomains]) -> Entry:
        mail_id = self._post.new_id()
        prepared = _prepare(request.mail, mail_id, now, allowed)
        ttl_s = self._post.ttl_s() if request.ttl is None else check_ttl(request.ttl)
        key = request.idempotency_key
        body = storing.encode(prepared)
        message = Message(
            id=mail_id,
            queue=QUEUE,
            tenant=tenant,
            body=body,
            enqueued_at=now,
            ttl_s=ttl_s,
            dedupe=None if key is None else check_dedupe(key),
            headers=storing.headers(body, {}),
        )
        digest = None if key is None else request.digest or _digest(request.mail)
        return Entry(message, now, expiry(now, now, ttl_s), digest)


class InvalidMails(InvalidMessage):
    """Several mails of a batch that cannot be accepted."""

    def __init__(self, refused: Sequence[InvalidMail]) -> None:
        self.refused = tuple(refused)
        super().__init__("; ".join(map(str, refused[:5])) + (" …" if len(refused) > 5 else ""))


def _check_senders(authors: Sequence[Address], allowed: Sequence[SenderDomains]) -> None:
    """InvalidMail when the mail names a sender that its tenant or its key may not send as."""
    for domains in allowed:
        if not all(domains.allows(one.domain) for one in authors):
            raise InvalidMail([Problem("from", f"is not of a domain that you may send from: {domains}")])


def _prepare(mail: Mail | EmailMessage, mail_id: str, now: int, allowed: Sequence[SenderDomains]) -> Stored:
    date = datetime.fromtimestamp(now // 1000, UTC)
    if isinstance(mail, EmailMessage):
        rendered = from_email_message(mail, mail_id=mail_id, date=date)
    else:
        checked = check(mail)
        rendered = render(checked, message_id=make_message_id(mail_id, checked.sender.domain), date=date)
    _check_senders((rendered.sender, *rendered.authors), allowed)
    return Stored(
        from_=rendered.sender.envelope,
        to=[one.envelope for one in rendered.recipients],
        message_id=rendered.message_id,
        subject=rendered.subject,
        tags=rendered.tags,
        smtputf8=rendered.smtputf8,
        eight_bit=rendered.eight_bit,
        **storing.with_content(rendered.content),  # type: ignore[arg-type]  # content or raw
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
