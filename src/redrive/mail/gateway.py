"""The gateway's handler: one mail to one recipient, or the fan-out of a mail to many.

Hands the rendered bytes to the relay and turns what came back into one of the engine's answers, by the
rules in `rules`. Each recipient is a message of its own with its own state; a drop after the final
dot is uncertain; a relay that cannot be reached costs no attempt. Renders nothing.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import assert_never
from uuid import UUID, uuid5

import msgspec

from redrive.core.errors import Answer, Hold, InvalidMessage, Later, Permanent, Temporary, Uncertain
from redrive.core.message import Delivery, Entry, Message
from redrive.core.ports import Receipt
from redrive.core.retry import RetryPolicy, plain_delay_s
from redrive.mail.judging.replies import Action, Judgement, Reply, Stage
from redrive.mail.judging.rules import Rules
from redrive.mail.outage import Outage
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import (
    AuthenticationFailed,
    InvalidEnvelope,
    SmtpError,
    SmtpPhase,
    TlsFailed,
    Unreachable,
    Unsupported,
)
from redrive.mail.smtp.pool import Pool
from redrive.mail.smtp.transaction import RecipientReply
from redrive.mail.stored import Stored, decode, encode
from redrive.telemetry.events import Event

_SLOWER = 4
_PARENTS = 16
_FAN_OUT = 500
_STAGES = {phase: Stage(phase.value) if phase.value in set(Stage) else None for phase in SmtpPhase}

Append = Callable[[Sequence[Entry]], Awaitable[list[Receipt]]]


class Gateway:
    """Sends the mails of `email:send` through one relay."""

    def __init__(
        self,
        pool: Pool,
        rules: Rules,
        append: Append,
        policy: Callable[[], RetryPolicy],
        emit: Callable[[Event], None],
    ) -> None:
        self._pool = pool
        self._rules = rules
        self._append = append
        self._policy = policy
        self._outage = Outage(str(pool.relay), time.monotonic, random.random, emit)
        self._parents: OrderedDict[str, bytes] = OrderedDict()

    def connections(self) -> dict[str, int]:
        """Connections to the relay, by what they do."""
        return {"busy": self._pool.connections - self._pool.idle, "idle": self._pool.idle}

    def outage(self) -> dict[str, str | int] | None:
        """What is known of a relay that cannot be reached; None while it answers."""
        return self._outage.story

    async def handle(self, stored: Stored, delivery: Delivery) -> None:
        """The handler of `email:send`."""
        if len(stored.to) != 1:
            await self._fan_out(stored, delivery)
            return
        if (pause := self._outage.wait(delivery.message.id)) is not None:
            raise Later(pause, "the relay cannot be reached")
        try:
            envelope = Envelope(
                stored.from_,
                (stored.to[0],),
                self._content(stored, delivery),
                smtputf8=stored.smtputf8 or not stored.to[0].isascii(),
                eight_bit=stored.eight_bit,
            )
            (reply,) = await self._pool.send(envelope)
        except SmtpError as error:
            raise self._answer_to_error(error, delivery) from error
        self._outage.worked()
        if not reply.accepted:
            raise self._answer(_reply(reply), delivery)

    async def close(self) -> None:
        """End the connections."""
        await self._pool.close()

    async def _fan_out(self, stored: Stored, delivery: Delivery) -> None:
        """One child a recipient. Ids follow from the parent's, so doing it twice changes nothing."""
        for first in range(0, len(stored.to), _FAN_OUT):
            chosen = enumerate(stored.to[first : first + _FAN_OUT], first)
            await self._append([_child(stored, delivery, place, one) for place, one in chosen])

    def _content(self, stored: Stored, delivery: Delivery) -> bytes:
        content = stored.rendered()
        if content is not None:
            return content
        parent = delivery.message.parent or ""
        content = self._parents.get(parent)
        if content is None:
            if delivery.parent_body is None:
                raise Permanent("the mail of this recipient is not in the store", scope="message")
            content = _content_of_parent(delivery.parent_body)
            self._parents[parent] = content
            if len(self._parents) > _PARENTS:
                self._parents.popitem(last=False)
        return content

    def _answer_to_error(self, error: SmtpError, delivery: Delivery) -> Answer:
        if isinstance(error, InvalidEnvelope | Unsupported):
            return Permanent(str(error), code=type(error).__name__, scope="message")
        if isinstance(error, TlsFailed) or (isinstance(error, AuthenticationFailed) and error.code is None):
            return Hold(str(error), code=type(error).__name__, scope="provider")
        if isinstance(error, Unreachable):
            return Later(self._outage.failed(delivery.message.id, str(error)), str(error))
        if error.after_dot:
            return Uncertain(str(error), code=type(error).__name__, scope="message")
        stage = _STAGES[error.phase]
        if error.code is None:
            reply = Reply(str(error), stage=stage)
        else:
            reply = Reply.received(error.code, error.enhanced, error.text, stage=stage)
        return self._answer(replace(reply, name=type(error).__name__), delivery)

    def _answer(self, reply: Reply, delivery: Delivery) -> Answer:
        judged = self._rules.judge(replace(reply, attempts=delivery.progress.attempts))
        reason = f"{reply.text} ({judged.rule})"
        code = reply.enhanced if reply.code is None else str(reply.code)
        scope = judged.scope.value
        match judged.action:
            case Action.RETRY | Action.RETRY_ELSEWHERE | Action.SPLIT | Action.RETRY_SLOW:
                wait = self._wait(judged, delivery)
                return Temporary(reason, code=code, scope=scope, retry_after=wait)
            case Action.FAIL_RECIPIENT | Action.FAIL_MESSAGE:
                return Permanent(reason, code=code, scope=scope)
            case Action.HOLD:
                return Hold(reason, code=code, scope=scope)
            case Action.UNCERTAIN:
                return Uncertain(reason, code=code, scope=scope)
        assert_never(judged.action)

    def _wait(self, judged: Judgement, delivery: Delivery) -> timedelta | None:
        """What the server asked for, or four times the usual delay where it wants us slower."""
        wait_s = judged.retry_after_s or 0.0
        if judged.action is Action.RETRY_SLOW:
            wait_s = max(wait_s, _SLOWER * plain_delay_s(self._policy(), delivery.progress.attempts))
        return timedelta(seconds=wait_s) if wait_s else None


def _child(stored: Stored, delivery: Delivery, place: int, recipient: str) -> Entry:
    parent = delivery.message
    message = Message(
        id=str(uuid5(UUID(parent.id), str(place))),
        queue=parent.queue,
        tenant=parent.tenant,
        body=encode(msgspec.structs.replace(stored, to=(recipient,), content=None, raw=None)),
        enqueued_at=parent.enqueued_at,
        ttl_s=parent.ttl_s,
        track=parent.track,
        headers={"to": recipient},
        parent=parent.id,
    )
    return Entry(message, parent.enqueued_at, delivery.progress.expires_at)


def _content_of_parent(body: bytes) -> bytes:
    try:
        content = decode(body).rendered()
    except InvalidMessage as error:
        raise Permanent(str(error), scope="message") from error
    if content is None:
        raise Permanent("the mail of this recipient has no content", scope="message")
    return content


def _reply(refused: RecipientReply) -> Reply:
    said = refused.reply
    return Reply.received(said.code, said.enhanced, said.text, stage=_STAGES[refused.phase])
