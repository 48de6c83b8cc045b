"""`/v1/queues/{queue}/messages`: messages for any queue, one or up to 1,000 at a time.

A payload is kept byte for byte as it came, once it is known that a handler can read it. The mail gateway's
own queue is closed here: a mail goes through the checks of `/v1/emails`. A key submits to the queues that it
names, or to those that are known: a name that nobody knows would be a queue that nobody serves, and many of
them a way to fill the store. Known weakness: two processes that begin queues for one tenant at the same
moment may pass the bound by a few.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from redrive.app import Redrive
from redrive.core.errors import Conflict, InvalidMessage
from redrive.core.message import Entry, check_queue
from redrive.core.ports import APPEND_BYTES, Receipt
from redrive.engine.entries import Submission, make_entry
from redrive.mail.stored import QUEUE as MAIL_QUEUE
from redrive.office.access import Credential, Permission
from redrive.office.queues import live_workers
from redrive.web import description
from redrive.web.access import Call, Route
from redrive.web.description import reference
from redrive.web.documents import BATCH, MOST_S, check_payload, collect, decode, respond
from redrive.web.idempotency import IdempotencyKey, idempotency_key, replayed
from redrive.web.limits import read_json
from redrive.web.problems import FORBIDDEN, INVALID, NOT_FOUND, TOO_LARGE, FieldError, Refusal


class SubmittedMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message: `delay` and `ttl` in seconds; `dedupe` makes an equal one later a duplicate of this one."""

    payload: msgspec.Raw
    delay: Annotated[float, msgspec.Meta(ge=0, le=MOST_S)] | None = None
    ttl: Annotated[float, msgspec.Meta(gt=0, le=MOST_S)] | None = None
    dedupe: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None
    track: Literal["main", "bulk"] = "main"
    headers: dict[str, str] = {}


class AcceptedMessage(msgspec.Struct, frozen=True):
    """A message that is durably stored. `duplicate`: it was before, under the same key."""

    id: str
    status: str


class AcceptedMessages(msgspec.Struct, frozen=True):
    """MessageRoutes that are durably stored, in the order given."""

    messages: list[AcceptedMessage]


SCHEMAS = (SubmittedMessage, AcceptedMessages)

_DESCRIBED = description.submitting(
    {
        "oneOf": [
            reference("SubmittedMessage"),
            {"type": "array", "items": reference("SubmittedMessage"), "minItems": 1, "maxItems": BATCH},
        ]
    },
    {"oneOf": [reference("AcceptedMessage"), reference("AcceptedMessages")]},
)

_MISSING = _DESCRIBED | {"responses": _DESCRIBED["responses"] | description.problems((NOT_FOUND,))}
_MESSAGE = msgspec.json.Decoder(SubmittedMessage)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class _Origin:
    """What all messages of one request share."""

    queue: str
    tenant: str
    key: IdempotencyKey | None


class MessageRoutes:
    """The route to the queues of one app."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._store = app.store
        self._names = QueueNames(app)

    def routes(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path="/v1/queues/{queue}/messages",
                name="submitMessages",
                summary="Submit a message, or up to 1,000 together: accepted once durably stored",
                status=202,
                allowed=frozenset({Permission.SUBMIT}),
                answer=self.submit,
                described=description.with_path(_MISSING, "queue", description.QUEUE),
            )
        ]

    async def submit(self, call: Call) -> Response:
        queue = _queue(call.request.path_params["queue"])
        body = await read_json(call.request, APPEND_BYTES)
        key = idempotency_key(call.request, body)
        origin = _Origin(queue, call.tenant, key)
        if body.lstrip()[:1] != b"[":
            entry = self._entry(origin, 0, body)
            await self._names.admit(call.credential, call.tenant, queue)
            (receipt,) = receipts = await self._append([entry], key)
            return respond(202, _accepted(receipt), replayed(key, receipts))
        documents = decode(_LIST, body)
        entries = collect(documents, partial(self._entry, origin))
        await self._names.admit(call.credential, call.tenant, queue)
        receipts = await self._append(entries, key)
        return respond(202, AcceptedMessages(list(map(_accepted, receipts))), replayed(key, receipts))

    def _entry(self, origin: _Origin, index: int, document: bytes | msgspec.Raw) -> Entry:
        message, key, queue = decode(_MESSAGE, document), origin.key, origin.queue
        if key is not None and message.dedupe is not None:
            error = FieldError("dedupe", "says the same as the Idempotency-Key: give one of them")
            raise Refusal(INVALID, "the message cannot be accepted: see errors", [error])
        most = self._app.settings.submit.body_bytes
        if len(bytes(message.payload)) > most:
            raise Refusal(TOO_LARGE, f"a payload has more than {most:,} bytes")
        check_payload(message.payload)
        submission = Submission(
            message.payload,
            origin.tenant,
            dedupe=message.dedupe if key is None else key.item(index),
            delay=None if message.delay is None else timedelta(seconds=message.delay),
            ttl=None if message.ttl is None else timedelta(seconds=message.ttl),
            track=message.track,
            headers=message.headers,
        )
        entry = make_entry(
            queue,
            submission,
            ttl_s=self._app.policy(queue).ttl_s,
            settings=self._app.settings.submit,
            now=self._store.now(),
        )
        return entry if key is None else replace(entry, digest=key.digest)

    async def _append(self, entries: Sequence[Entry], key: IdempotencyKey | None) -> list[Receipt]:
        try:
            return await self._app.append(entries)
        except Conflict as error:
            if key is None:
                raise
            raise key.reused() from error


def _queue(name: str) -> str:
    try:
        check_queue(name)
    except InvalidMessage:
        error = FieldError("queue", "is not a name: use 1-128 of A-Z a-z 0-9 . _ - :")
        raise Refusal(INVALID, "the queue cannot be used: see errors", [error]) from None
    if name == MAIL_QUEUE:
        error = FieldError("queue", "belongs to the mail gateway: send mails to /v1/emails")
        raise Refusal(INVALID, "the queue cannot be used: see errors", [error])
    return name


def _accepted(receipt: Receipt) -> AcceptedMessage:
    return AcceptedMessage(receipt.id, receipt.status.value)


class QueueNames:
    """The queues of one app, as submit keys may use them."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._known: set[str] = set()
        self._begun: defaultdict[str, set[str]] = defaultdict(set)
        self._beginning = asyncio.Lock()

    async def admit(self, key: Credential, tenant: str, queue: str) -> None:
        """Refusal when the key may not submit to the queue."""
        if key.queues and not key.queues.match(queue):
            raise Refusal(FORBIDDEN, f"this key submits to {key.queues} only")
        if queue in self._known:
            return
        async with self._beginning:
            self._known.update(await self._app.store.queue_names())
            if queue not in self._known:
                await self._begin(key, tenant, queue)

    async def _begin(self, key: Credential, tenant: str, queue: str) -> None:
        if not key.queues and not await self._has_handler(queue):
            raise Refusal(
                NOT_FOUND,
                "there is no such queue, and nothing has a handler for it: start its worker, name it in the "
                "configuration, or use a key that names its queues",
            )
        begun, most = self._begun[tenant], self._app.settings.submit.queues
        if queue not in begun:
            names = {name for name in self._known if await self._app.store.lane(name, tenant) is not None}
            if len(names | begun) >= most:
                detail = f"the tenant has {most:,} queues, as many as it may: use one of them"
                raise Refusal(FORBIDDEN, detail)
            begun.add(queue)

    async def _has_handler(self, queue: str) -> bool:
        if queue in self._app.settings.queues or queue in {one.queue for one in self._app.served()}:
            return True
        return any(queue in worker.queues for worker in await live_workers(self._app.store))
