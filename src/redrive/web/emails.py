"""`/v1/emails`: mails handed in, and how far each recipient's is.

Decodes and lists what does not fit; whether a mail can be sent is the desk's to say. A batch is one durable
write, all or nothing. A mail of another tenant does not exist here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.responses import Response

from redrive.core.errors import Conflict
from redrive.core.message import Entry
from redrive.core.ports import Receipt
from redrive.mail.desk import Desk
from redrive.mail.documents import MailDocument, mail_document
from redrive.mail.writing.addresses import parse
from redrive.mail.writing.mail import Mail
from redrive.office.access import Permission
from redrive.office.masking import UNMASKED, Mask
from redrive.office.office import Office
from redrive.office.view import MayNotReveal
from redrive.web import description
from redrive.web.access import Call, Route
from redrive.web.admin.route import Parameters, Reveal, acting, asked, parameters
from redrive.web.description import reference
from redrive.web.documents import MOST_S, collect, decode, respond
from redrive.web.idempotency import IdempotencyKey, idempotency_key, replayed
from redrive.web.limits import MAIL_BYTES, read_json
from redrive.web.problems import FORBIDDEN, INVALID, NO_REVEAL, NOT_FOUND, Refusal


class SubmittedMail(
    Mail, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A mail to send. An address is `local@domain` or `Name <local@domain>`; one text is one address.

    `ttl`: after this many seconds it is not tried again.
    """

    ttl: Annotated[float, msgspec.Meta(gt=0, le=MOST_S)] | None = None


class SubmittedMails(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch of mails, accepted together or not at all."""

    emails: Annotated[list[SubmittedMail], msgspec.Meta(min_length=1, max_length=1_000)]


class AcceptedMail(msgspec.Struct, frozen=True):
    """A mail that is durably stored. `duplicate`: it was before, under the same Idempotency-Key."""

    id: str
    status: str
    recipients: list[str]


class AcceptedMails(msgspec.Struct, frozen=True):
    """A batch that is durably stored, in the order given."""

    emails: list[AcceptedMail]


SCHEMAS = (SubmittedMails, AcceptedMails, MailDocument)


class _Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    emails: list[msgspec.Raw]


_MAIL = msgspec.json.Decoder(SubmittedMail)
_BATCH = msgspec.json.Decoder(_Batch)


class ShowMail(Parameters, frozen=True):
    """How addresses are shown to keys that do not submit."""

    reveal: Reveal = "false"


_SHOWN = description.reading("MailDocument", INVALID) | {"parameters": parameters(ShowMail)}


class Emails:
    """The routes of one mail desk; the office knows who sees addresses, and keeps who saw them."""

    def __init__(self, desk: Desk, office: Office) -> None:
        self._desk = desk
        self._office = office

    def routes(self) -> list[Route]:
        submit = frozenset({Permission.SUBMIT})
        return [
            Route(
                method="POST",
                path="/v1/emails",
                name="submitEmail",
                summary="Send a mail: accepted once it is durably stored",
                status=202,
                allowed=submit,
                answer=self.submit,
                described=description.submitting(
                    reference("SubmittedMail"), reference("AcceptedMail"), location=True
                ),
            ),
            Route(
                method="POST",
                path="/v1/emails/batch",
                name="submitEmails",
                summary="Send up to 1,000 mails: accepted together or not at all",
                status=202,
                allowed=submit,
                answer=self.submit_batch,
                described=description.submitting(reference("SubmittedMails"), reference("AcceptedMails")),
            ),
            Route(
                method="GET",
                path="/v1/emails/{id}",
                name="getEmail",
                summary="How far a mail is: the state of each recipient and every attempt",
                allowed=submit | {Permission.READ},
                answer=self.show,
                described=description.with_path(_SHOWN, "id", description.ID),
            ),
        ]

    async def submit(self, call: Call) -> Response:
        body = await read_json(call.request, MAIL_BYTES)
        key = idempotency_key(call.request, body)
        mail, now = decode(_MAIL, body), await self._desk.now()
        receipts = await self._append([self._entry(call, key, now, 0, mail)], key)
        headers = replayed(key, receipts) | {"Location": f"/v1/emails/{receipts[0].id}"}
        return respond(202, _accepted(mail, receipts[0]), headers)

    async def submit_batch(self, call: Call) -> Response:
        body = await read_json(call.request, MAIL_BYTES)
        key = idempotency_key(call.request, body)
        documents, now = decode(_BATCH, body).emails, await self._desk.now()
        mails: list[SubmittedMail] = []

        def make(index: int, document: msgspec.Raw) -> Entry:
            mails.append(decode(_MAIL, document))
            return self._entry(call, key, now, index, mails[-1])

        receipts = await self._append(collect(documents, make), key)
        accepted = AcceptedMails([_accepted(*pair) for pair in zip(mails, receipts, strict=True)])
        return respond(202, accepted, replayed(key, receipts))

    async def show(self, call: Call) -> Response:
        status = await self._desk.find(call.request.path_params["id"])
        if status is None or not call.credential.sees(status.tenant):
            raise Refusal(NOT_FOUND, "there is no such mail: it may have finished and been cleaned up")
        return respond(200, mail_document(status, (await self._mask(call)).text))

    async def _mask(self, call: Call) -> Mask:
        """Whoever submits knows whom to; others see addresses masked, unless they may reveal and ask to."""
        reveal = asked(call, ShowMail).reveal == "true"
        if call.credential.may(Permission.SUBMIT):
            return UNMASKED
        view = acting(self._office, call).view
        try:
            return await view.mask({"ids": [call.request.path_params["id"]]}, reveal=reveal)
        except MayNotReveal:
            raise Refusal(FORBIDDEN, NO_REVEAL) from None

    def _entry(
        self, call: Call, key: IdempotencyKey | None, now: int, index: int, mail: SubmittedMail
    ) -> Entry:
        return self._desk.entry(
            mail,
            tenant=call.tenant,
            now=now,
            senders=call.credential.senders,
            dedupe=None if key is None else key.item(index),
            digest=None if key is None else key.digest,
            ttl=mail.ttl,
        )

    async def _append(self, entries: Sequence[Entry], key: IdempotencyKey | None) -> list[Receipt]:
        try:
            return await self._desk.append(entries)
        except Conflict as error:
            if key is None:
                raise
            raise key.reused() from error


def _accepted(mail: Mail, receipt: Receipt) -> AcceptedMail:
    given = [one for field in (mail.to, mail.cc, mail.bcc) for one in _listed(field)]
    addresses = list(dict.fromkeys(parse(one).envelope for one in given))
    return AcceptedMail(receipt.id, receipt.status.value, addresses)


def _listed(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given
