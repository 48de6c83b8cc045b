"""The consumption of one queue: what arrived, what was handed over, and what the broker is told of it.

A connection that is lost takes nothing that is under way with it: a message that comes again while its
attempt runs here stands for the same attempt, whose outcome is then told for the new hand-over. One that
goes to another consumer instead is lost to us after a while. A broker never says that it heard an answer: one
that may have been lost with the connection is said again when its message comes again, not run again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from aiormq.abc import AbstractChannel, DeliveredMessage
from msgspec.structs import replace

from redrive.brokers.rabbitmq.adrift import Adrift, Answer, HandoverReceipt
from redrive.brokers.rabbitmq.connection import (
    ANSWER_S,
    BrokerLine,
    BrokerUnavailable,
    close_quietly,
    translated,
)
from redrive.brokers.rabbitmq.frames import (
    DELIVER,
    ContentTaker,
    acknowledgement,
    rejection,
)
from redrive.brokers.rabbitmq.properties import UNREADABLE, Properties
from redrive.brokers.rabbitmq.tap import send
from redrive.core.carrier import Parcel, ParcelStanding

_GONE_S = 0.3
"""A broker says that a queue is being deleted before it is: whoever consumes a half deleted quorum queue
loses the connection."""

SILENCE_S = 60.0
"""How long a consumer may hear nothing before it begins anew. RabbitMQ 3 does not always tell that a quorum
queue was deleted: it moves its consumers to a queue of the same name that was declared meanwhile, and drops
what that one hands to them, unseen and unacknowledged."""

Read = Callable[[bytes, HandoverReceipt], Parcel]
_DIES: Answer = partial(rejection, requeue=False)
_GOES_BACK: Answer = partial(rejection, requeue=True)


class Consumption:
    """One queue, consumed on a channel of its own until it is stopped; begun again with the next `ready`."""

    def __init__(
        self, line: BrokerLine, place: str, queue: str, prefetch: int, read: Read, arrived: Callable[[], None]
    ) -> None:
        self._line = line
        self._place = place
        self.queue = queue
        self._prefetch = prefetch
        self._read = read
        self._arrived = arrived
        self._channel: AbstractChannel | None = None
        self._heard_s = 0.0
        self._taken = 0
        self._buffer: deque[Parcel] = deque()
        self._outstanding: dict[int, HandoverReceipt] = {}
        # A broker hands over no more than this before it has heard an answer.
        self._answered: deque[HandoverReceipt] = deque(maxlen=prefetch)
        self._adrift = Adrift()
        self._repeated: list[HandoverReceipt] = []
        self._lock = asyncio.Lock()
        # One word after the other: what acknowledges all up to a tag must not overtake a rejection.
        self._telling = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    @property
    def untaken(self) -> Sequence[Parcel]:
        """What has arrived and was not taken."""
        return self._buffer

    @property
    def is_live(self) -> bool:
        """Whether the queue is consumed."""
        return self._channel is not None and not self._channel.is_closed

    @property
    def is_silent(self) -> bool:
        """Whether nothing has arrived for so long that it may be the broker that forgot us."""
        return not self._outstanding and time.monotonic() > self._heard_s + SILENCE_S

    def waits_longer_than(self, patience_s: float) -> bool:
        """Whether something arrived so long ago and was not taken."""
        if not self._buffer:
            return False
        receipt: HandoverReceipt = self._buffer[0].receipt
        return time.monotonic() > receipt.arrived_s + patience_s

    def narrow(self) -> None:
        """Take no more ahead from now on than was taken in half the time that the first one has waited.

        A broker that waits too long for an answer takes all back, and counts it as if a worker was lost with
        it; so it does with what is given back now, hence at once to what will do.
        """
        receipt: HandoverReceipt = self._buffer[0].receipt
        running = len(self._outstanding) - len(self._buffer)
        self._prefetch = max(1, min(self._prefetch - 1, running + (self._taken - receipt.place) // 2))
        self.renew()

    def renew(self) -> None:
        """Leave the queue; the next `ready` consumes it anew."""
        if self._channel is not None:
            self._cancelled(self._channel)

    async def ready(self) -> None:
        """Consume, if that is not done; BrokerUnavailable when that cannot be."""
        async with self._lock:
            if not self.is_live:
                await self._begin()

    async def repeat(self) -> None:
        """Say again what the broker may not have heard."""
        receipts, self._repeated = self._repeated, []
        async with self._telling:
            held = [one for one in receipts if self._is_held(one)]
            if held:
                channel, tags = self._let_go(held)
                words = [_repeated(one)(channel.number, tag) for one, tag in zip(held, tags, strict=True)]
                await self._tell(channel, words)

    def take(self, limit: int) -> list[Parcel]:
        """What has arrived; from now on it has to be told about."""
        count = min(limit, len(self._buffer))
        self._taken += count
        return [self._buffer.popleft() for _ in range(count)]

    def standing(self, parcel: Parcel) -> ParcelStanding:
        """Whether the broker can be told about a parcel. One that is lost is forgotten: should it come again
        after all, nobody runs it any more."""
        receipt: HandoverReceipt = parcel.receipt
        if self._is_held(receipt):
            return ParcelStanding.HELD
        if not self.is_live:
            return ParcelStanding.WAITING
        if self._adrift.comes_again(receipt):
            return ParcelStanding.WAITING
        self._adrift.forget(receipt)
        return ParcelStanding.LOST

    async def acknowledge(self, receipts: Sequence[HandoverReceipt]) -> None:
        """Tell the broker to forget these, in as few words as is safe."""
        async with self._telling:
            channel, tags = self._let_go(receipts, acknowledgement)
            lowest = next(iter(self._outstanding), None)
            whole = [tag for tag in tags if lowest is None or tag < lowest]
            words = [
                acknowledgement(channel.number, tag) for tag in tags if lowest is not None and tag > lowest
            ]
            if whole:
                words.append(acknowledgement(channel.number, max(whole), multiple=True))
            await self._tell(channel, words)

    async def reject(self, receipts: Sequence[HandoverReceipt]) -> None:
        """Let these die where the queue says."""
        async with self._telling:
            channel, tags = self._let_go(receipts, _DIES)
            await self._tell(channel, [_DIES(channel.number, tag) for tag in tags])

    async def give_back(self, receipts: Sequence[HandoverReceipt]) -> None:
        """Anyone may have these; what a lost connection had is the broker's already."""
        async with self._telling:
            for receipt in receipts:
                if not self._is_held(receipt):
                    self._adrift.forget(receipt)
            held = [one for one in receipts if self._is_held(one)]
            if held:
                channel, tags = self._let_go(held)
                await self._tell(channel, [_GOES_BACK(channel.number, tag) for tag in tags])

    async def close(self) -> None:
        """Stop; what was not told about is the broker's again."""
        channel, self._channel = self._channel, None
        self._forget()
        if channel is not None and not channel.is_closed:
            await close_quietly(channel)
        await self._left()

    async def _left(self) -> None:
        """Return when the channel that was left last is closed, however that went."""
        if self._closing is not None:
            await asyncio.wait([self._closing])
            self._closing = None

    async def _begin(self) -> None:
        await self._left()
        channel = await self._line.channel(confirms=False)
        try:
            with translated(self._place):
                async with asyncio.timeout(ANSWER_S):
                    await channel.basic_qos(prefetch_count=self._prefetch)
                    channel.closing.add_done_callback(lambda _: self._lost(channel))
                    channel.on_consumer_cancel_callbacks.add(lambda _: self._cancelled(channel))
                    self._line.divert(channel, ContentTaker(DELIVER, partial(self._receive, channel)))
                    self._channel = channel
                    await channel.basic_consume(self.queue, _nothing)
            self._adrift.begin()
            self._heard_s = time.monotonic()
        except BaseException:
            self._lost(channel)
            await close_quietly(channel)
            raise

    async def _tell(self, channel: AbstractChannel, words: Sequence[bytes]) -> None:
        """A channel that takes no words is left: what it was to tell comes again. So is one whose words are
        cut off by whoever gives up waiting: what it was told is not known."""
        try:
            with translated(self._place):
                await send(channel, b"".join(words))
        except BaseException:
            self._cancelled(channel)
            raise

    def _receive(self, channel: AbstractChannel, method: bytes, properties: Properties, body: bytes) -> None:
        if channel is not self._channel:
            return
        receipt = HandoverReceipt(self, method, properties)
        parcel = self._read_anything(body, receipt)
        receipt.key = (
            parcel.message.id,
            parcel.generation,
            parcel.attempts,
            parcel.postponed,
            hash(parcel.message.body),
        )
        receipt.own = parcel.own
        if receipt.redelivered and (self._adopt(receipt) or self._answer_again(receipt)):
            return
        if parcel.redelivered and self._adrift.was_untaken(receipt):
            parcel = replace(parcel, redelivered=False)
        receipt.place = self._taken
        self._outstanding[receipt.tag] = receipt
        self._buffer.append(parcel)
        if len(self._buffer) == 1:
            self._heard_s = time.monotonic()
            self._arrived()

    def _read_anything(self, body: bytes, receipt: HandoverReceipt) -> Parcel:
        """A parcel of whatever came: an error here would end the connection, for every queue, each time that
        the message comes again."""
        try:
            return self._read(body, receipt)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it
            receipt.properties = Properties(headers={UNREADABLE: f"{type(error).__name__}: {error}"[:200]})
            return self._read(body, receipt)

    def _adopt(self, fresh: HandoverReceipt) -> bool:
        """Let a running attempt's receipt stand for what came again."""
        receipt = self._adrift.attempt(fresh)
        if receipt is None:
            return False
        receipt.tag = fresh.tag
        self._outstanding[receipt.tag] = receipt
        return True

    def _answer_again(self, fresh: HandoverReceipt) -> bool:
        """Let `repeat` say what the broker was told about what came again, and did not hear."""
        fresh.answer = self._adrift.answer(fresh)
        if fresh.answer is None:
            return False
        self._outstanding[fresh.tag] = fresh
        self._repeated.append(fresh)
        self._arrived()
        return True

    def _is_held(self, receipt: HandoverReceipt) -> bool:
        return self._outstanding.get(receipt.tag) is receipt

    def _cancelled(self, channel: AbstractChannel) -> None:
        """The queue is gone; the next `ready` says so, or finds it declared again.

        The driver calls this while it reads the channel: it would wait for the answer to a close for ever.
        """
        self._lost(channel)
        self._closing = asyncio.create_task(_leave(channel))

    def _lost(self, channel: AbstractChannel) -> None:
        if channel is not self._channel:
            return
        self._channel = None
        self._forget()
        self._arrived()

    def _forget(self) -> None:
        untaken = {parcel.receipt for parcel in self._buffer}
        self._adrift.lose(self._outstanding.values(), untaken, self._answered)
        self._outstanding = {}
        for kept in (self._buffer, self._answered, self._repeated):
            kept.clear()

    def _let_go(
        self, receipts: Sequence[HandoverReceipt], answer: Answer | None = None
    ) -> tuple[AbstractChannel, list[int]]:
        """From here on these are told about; all that is outstanding is of the one channel. An `answer` is
        remembered for messages that have an id of our own: another message never has it."""
        channel = self._channel
        if channel is None or not all(self._is_held(one) for one in receipts):
            raise BrokerUnavailable(f"{self._place}: the connection was lost before the outcome was told")
        for receipt in receipts:
            del self._outstanding[receipt.tag]
            if answer is not None and receipt.own:
                receipt.answer = answer
            if receipt.answer is not None:
                self._answered.append(receipt)
        return channel, [receipt.tag for receipt in receipts]


def _repeated(receipt: HandoverReceipt) -> Answer:
    assert receipt.answer is not None  # noqa: S101 - only what was answered is repeated
    return receipt.answer


async def _leave(channel: AbstractChannel) -> None:
    await close_quietly(channel)
    await asyncio.sleep(_GONE_S)


async def _nothing(_: DeliveredMessage) -> None:
    """What the driver hands over: nothing, all deliveries are taken before."""
