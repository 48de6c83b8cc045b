"""RabbitMQ as a `Carrier`: the queues of a topology, consumed, retried, parked, collected and sent back.

What is missing on the broker is declared when it is needed, also after somebody deleted it. One connection
consumes, another publishes.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from aiormq.abc import AbstractChannel

from redrive.brokers.rabbitmq import wire
from redrive.brokers.rabbitmq.absent import AbsentQueues
from redrive.brokers.rabbitmq.adrift import HandoverReceipt
from redrive.brokers.rabbitmq.connection import BrokerLine, BrokerUnavailable
from redrive.brokers.rabbitmq.consume import Consumption, Read
from redrive.brokers.rabbitmq.declare import FirstSecond, declare_all
from redrive.brokers.rabbitmq.design import PARKING_KEY, QueueDesign, RetryMode, TopologyDesign
from redrive.brokers.rabbitmq.gauge import QueueGauge, is_gone
from redrive.brokers.rabbitmq.letter import origin_of, read_letter
from redrive.brokers.rabbitmq.properties import Properties
from redrive.brokers.rabbitmq.publish import Post, Publisher, Repair
from redrive.brokers.rabbitmq.topology import QueueType
from redrive.core.carrier import (
    Abilities,
    Depth,
    MessagesRefused,
    Parcel,
    ParcelStanding,
    Parking,
    PublishingInterrupted,
    Retry,
    Return,
)
from redrive.core.condition import Description, Durability, Finding, Grade
from redrive.core.message import Message

_LEDGER_QUEUE, _LEDGER_LOCK = "redrive.ledger", "redrive.ledger.lock"
_STALE_PARTS = 6
"""What waits here for this part of the time that the broker waits for an answer has waited too long."""

_LOOK_S = 10.0
"""How often a retry queue is looked for while messages are rejected into it."""


class RabbitCarrier:
    """One broker and virtual host. `collected` names dead-letter queues besides those of the design, each
    with the queue that its letters go back to, where that is known."""

    def __init__(
        self,
        url: str,
        place: str,
        design: TopologyDesign,
        *,
        prefetch: int,
        consumer_timeout_s: float,
        collected: Mapping[str, str | None],
        now: Callable[[], int],
    ) -> None:
        self._place = place
        self._now = now
        self._prefetch = prefetch
        self._patience_s = consumer_timeout_s / _STALE_PARTS
        self._design = design
        self._collected = collected
        self.absent = AbsentQueues()
        self._designs: dict[str, QueueDesign] = {one.name: one for one in design.queues}
        self._declared: set[str] = set()
        self._declaring: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._consuming = BrokerLine(url, place, "redrive consumes", self._declared.clear)
        self._publishing = BrokerLine(url, place, "redrive publishes", self._declared.clear)
        self._first_second = FirstSecond()
        self._publisher = Publisher(self._publishing, place, self._first_second.over)
        self._consumptions: dict[str, Consumption] = {}
        self._arrival = asyncio.Event()
        self._looked_s: dict[str, float] = {}

    @property
    def abilities(self) -> Abilities:
        return Abilities()

    async def open(self) -> None:
        await self._declare_all(list(self._designs))

    async def close(self) -> None:
        for consumption in self._consumptions.values():
            await consumption.close()
        await self._publisher.close()
        await self._consuming.close()
        await self._publishing.close()

    def abandon(self) -> None:
        self._consuming.abandon()
        self._publishing.abandon()

    async def describe(self) -> Description:
        product, version = await self._publishing.server()
        classic = [one.name for one in self._designs.values() if one.type.value == "classic"]
        if classic:
            meaning = (
                f"{classic[0]} is a classic queue: what its node loses is lost, and so may be dead letters"
            )
            return Description(self._place, Durability.B, meaning, f"{product} {version}")
        meaning = "accepted means confirmed: a majority of the broker's nodes has it on disk"
        return Description(self._place, Durability.A, meaning, f"{product} {version}")

    async def examine(self) -> list[Finding]:
        product, version = await self._publishing.server()
        found = [Finding("broker", Grade.RIGHT, f"{product} {version} answers at {self._place}")]
        for queue, depth in (await self.depths(list(self._designs))).items():
            if depth.waiting is None or depth.dead is None:
                fix = "redrive rabbitmq topology apply, or start a worker: it declares what is missing"
                found.append(
                    Finding(queue, Grade.WRONG, "the queue or its dead-letter queue is missing", fix)
                )
        async with QueueGauge(self._consuming, self._place) as gauge:
            missing = [one for one in self._collected if await gauge.held(one) is None]
        fix = "fix its name in broker.collect, or declare it"
        return [*found, *(Finding(one, Grade.WRONG, "the broker has no such queue", fix) for one in missing)]

    async def keep_ledger(self, ledger: str) -> str:
        """The first message of a queue of its own says so; it is only ever looked at, by one at a time: while
        one looks, another would see nothing and say it anew."""
        async with self._consuming.lock(_LEDGER_LOCK):
            async with self._consuming.passing_channel() as channel:
                await channel.queue_declare(_LEDGER_QUEUE, durable=True)
                first = await _peek(channel)
            if first is None:
                post = Post(
                    "", _LEDGER_QUEUE, ledger.encode(), Properties(delivery_mode=2, message_id=ledger)
                )
                await self._publisher.publish([post], _nothing)
                async with self._consuming.passing_channel() as channel:
                    first = await _peek(channel)
        return ledger if first is None else first

    def queues(self) -> Sequence[str]:
        return list(self._designs)

    def dead_letter_queues(self) -> Sequence[str]:
        return list(dict.fromkeys([*(one.dlq for one in self._designs.values()), *self._collected]))

    async def collect(self, queue: str, limit: int) -> list[Parcel]:
        consumption = await self._consume(queue, self._reading(queue))
        return consumption.take(limit)

    async def collect_dead(self, queue: str, limit: int) -> list[Parcel]:
        if self.absent.rests(queue):
            return []
        try:
            consumption = await self._consume(queue, self._reading_letters(queue))
        except BrokerUnavailable as error:
            if not is_gone(error) or self._owner(queue) not in self._collected:
                raise
            self.absent.miss(queue)
            return []
        self.absent.find(queue)
        return consumption.take(limit)

    def untaken(self, queue: str) -> Sequence[Parcel]:
        consumption = self._consumptions.get(queue)
        return () if consumption is None else consumption.untaken

    async def stop(self, queue: str) -> None:
        consumption = self._consumptions.pop(queue, None)
        if consumption is not None:
            await consumption.close()

    async def wait(self, queues: Sequence[str], timeout_s: float) -> None:
        """Only news end it: what arrived before is taken when there is room for it."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrival.wait()
        except TimeoutError:
            return
        self._arrival.clear()

    def standing(self, parcel: Parcel) -> ParcelStanding:
        receipt: HandoverReceipt = parcel.receipt
        return receipt.consumption.standing(parcel)

    async def acknowledge(self, parcels: Sequence[Parcel]) -> None:
        for consumption, receipts in _by_consumption(parcels).items():
            await consumption.acknowledge(receipts)

    async def give_back(self, parcels: Sequence[Parcel]) -> None:
        for consumption, receipts in _by_consumption(parcels).items():
            await consumption.give_back(receipts)

    async def retry(self, retries: Sequence[Retry]) -> None:
        rejected = [one.parcel for one in retries if self._by_rejection(one)]
        for queue in {one.message.queue for one in rejected}:
            await self._look_for_retry_queue(queue)
        if rejected:
            await self._first_second.over()
        for consumption, receipts in _by_consumption(rejected).items():
            await consumption.reject(receipts)
        published = [one for one in retries if not self._by_rejection(one)]
        await self._publish([self._delayed(one) for one in published], [one.parcel for one in published])

    async def park(self, parkings: Sequence[Parking]) -> None:
        posts = []
        for parking in parkings:
            parcel, receipt = parking.parcel, parking.parcel.receipt
            exchange = self._of(parcel.message.queue).dlq_exchange
            properties = wire.parked(parcel, receipt, parking.death)
            posts.append(Post(exchange, PARKING_KEY, parcel.message.body, properties))
        await self._publish(posts, [one.parcel for one in parkings])

    async def send_back(self, returns: Sequence[Return]) -> AbstractSet[str]:
        posts = [Post("", origin_of(one.message), one.message.body, wire.restored(one)) for one in returns]
        queues = {one.routing_key for one in posts}
        refused = await self._publisher.publish(posts, self._repair(queues, queues))
        return {returns[place].message.id for place in refused}

    async def publish(self, messages: Sequence[Message]) -> AbstractSet[str]:
        """An exchange knows only the queues that stand: all of the topology's are declared before."""
        exchanges = {one.name for one in self._design.exchanges}
        named = {one.queue for one in messages}
        queues = set(self._designs) if named & exchanges else named & self._designs.keys()
        await self._publishing.connection()
        await self._declare_all(queues)
        posts = []
        for message in messages:
            known = message.queue in exchanges
            key = message.headers.get("routing-key", "") if known else message.queue
            exchange = message.queue if known else ""
            posts.append(Post(exchange, key, message.body, wire.fresh(message)))
        refused = await self._publisher.publish(posts, self._repair(queues, named - exchanges))
        return {messages[place].id for place in refused}

    async def depths(self, queues: Sequence[str]) -> Mapping[str, Depth]:
        async with QueueGauge(self._consuming, self._place) as gauge:
            return {queue: await gauge.depth(self._of(queue), queue in self._designs) for queue in queues}

    async def _publish(self, posts: Sequence[Post], parcels: Sequence[Parcel]) -> None:
        """Publish, confirmed, then acknowledge what was published; raise when any of it was refused."""
        if not posts:
            return
        queues = {one.message.queue for one in parcels}
        parked = [self._of(queue).dlq for queue in queues]
        try:
            refused = await self._publisher.publish(posts, self._repair(queues, parked))
        except (MessagesRefused, PublishingInterrupted) as error:
            await self.acknowledge([parcels[place] for place in sorted(error.confirmed)])
            raise
        await self.acknowledge([one for place, one in enumerate(parcels) if place not in refused])
        if refused:
            raise self._publisher.refusal(posts[min(refused)])

    async def _look_for_retry_queue(self, queue: str) -> None:
        """A rejection has no way to say that its queue is gone: the message would stand hidden until then."""
        if time.monotonic() < self._looked_s.get(queue, 0.0) + _LOOK_S:
            return
        async with QueueGauge(self._consuming, self._place) as gauge:
            found = await gauge.held(self._of(queue).retry_queue)
        if found is None:
            self._declared.discard(queue)
            await self._declare_all([queue])
        self._looked_s[queue] = time.monotonic()

    def _by_rejection(self, retry: Retry) -> bool:
        """A rejection counts an attempt, and waits as long as the retry queue says."""
        return retry.counted and self._of(retry.parcel.message.queue).retry is RetryMode.FIXED

    def _delayed(self, retry: Retry) -> Post:
        parcel, receipt = retry.parcel, retry.parcel.receipt
        design = self._of(parcel.message.queue)
        key = design.step(retry.delay_s).routing_key if design.steps else "retry"
        properties = wire.again(parcel, receipt, counted=retry.counted)
        return Post(design.retry_exchange, key, parcel.message.body, properties)

    async def _consume(self, queue: str, read: Read) -> Consumption:
        consumption = self._consumptions.get(queue)
        if consumption is None:
            consumption = Consumption(
                self._consuming, self._place, queue, self._prefetch, read, self._arrival.set
            )
            self._consumptions[queue] = consumption
        owner = self._owner(queue)
        if consumption.is_silent:
            consumption.renew()
        elif consumption.waits_longer_than(self._patience_s):
            consumption.narrow()
        if owner not in self._declared or not consumption.is_live:
            async with self._declaring[owner]:
                await self._begin(owner, consumption)
        await consumption.repeat()
        return consumption

    async def _begin(self, owner: str, consumption: Consumption) -> None:
        await self._ensure(owner)
        try:
            await consumption.ready()
        except BrokerUnavailable as error:
            if not is_gone(error) or owner in self._collected:
                raise
            self._declared.discard(owner)
            await self._ensure(owner)
            await consumption.ready()

    async def _declare_all(self, queues: Iterable[str]) -> None:
        for queue in queues:
            async with self._declaring[queue]:
                await self._ensure(queue)

    async def _ensure(self, queue: str) -> None:
        """Declare what a queue needs, unless that was done on these connections: a broker that comes back
        may have lost it. Whoever calls holds the queue's lock: a broker says that a queue stands while
        somebody else still declares it, and drops the connection of who consumes it then."""
        if queue not in self._declared and queue not in self._collected:
            await self._declare(queue)

    async def _declare(self, queue: str) -> None:
        design = self._designs.setdefault(queue, self._of(queue))
        bound = {one.exchange for one in design.all_bindings()}
        shared = tuple(one for one in self._design.exchanges if one.name in bound)
        async with self._consuming.passing_channel() as channel:
            await declare_all(channel, TopologyDesign(shared, (design,)).topology())
            self._declared.add(queue)
            if design.type is QueueType.QUORUM:
                self._first_second.begin()

    def _repair(self, queues: set[str], consumed: Iterable[str]) -> Repair:
        """Declare what the queues need. Where something is gone, what is `consumed` is consumed anew."""

        async def repair(gone: bool) -> None:
            for queue in consumed if gone else ():
                if queue in self._consumptions:
                    self._consumptions[queue].renew()
            wanted = queues & self._designs.keys()
            self._declared.difference_update(wanted)
            await self._declare_all(wanted)

        return repair

    def _of(self, queue: str) -> QueueDesign:
        """A queue that no file describes has the design that the defaults make; it is one of ours once it is
        declared."""
        return self._designs.get(queue) or QueueDesign(name=queue)

    def _owner(self, queue: str) -> str:
        """The queue that a dead-letter queue belongs to, where we know it."""
        return next((one.name for one in self._designs.values() if one.dlq == queue), queue)

    def _reading(self, queue: str) -> Read:
        def read(body: bytes, receipt: HandoverReceipt) -> Parcel:
            return wire.read(queue, body, receipt, receipt.redelivered, self._now())

        return read

    def _reading_letters(self, queue: str) -> Read:
        owner = self._owner(queue)
        origin = self._collected.get(queue) or (None if owner == queue else owner)

        def read(body: bytes, receipt: HandoverReceipt) -> Parcel:
            return read_letter(queue, origin, body, receipt, receipt.redelivered, self._now())

        return read


async def _peek(channel: AbstractChannel) -> str | None:
    """The first message of the ledger's queue; it goes back when the channel closes."""
    found = await channel.basic_get(_LEDGER_QUEUE)
    return found.body.decode("utf-8", "replace") or None


async def _nothing(_: bool) -> None:
    """There is nothing to repair."""


def _by_consumption(parcels: Sequence[Parcel]) -> dict[Consumption, list[HandoverReceipt]]:
    found: dict[Consumption, list[HandoverReceipt]] = {}
    for parcel in parcels:
        receipt: HandoverReceipt = parcel.receipt
        found.setdefault(receipt.consumption, []).append(receipt)
    return found
