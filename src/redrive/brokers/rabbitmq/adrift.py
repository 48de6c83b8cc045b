"""What a lost channel had: which messages come again, and what each then stands for.

A broker never says that it heard an answer, so four things may come again: what nobody took, what an attempt
still runs for, what was answered and not heard, and what was never here. A message is known again by all that
is in it: ids of other software may stand for several. Pure but for the clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from redrive.brokers.rabbitmq.frames import read_deliver
from redrive.brokers.rabbitmq.properties import Properties
from redrive.brokers.rabbitmq.wire import unchanging

if TYPE_CHECKING:
    from redrive.brokers.rabbitmq.consume import Consumption

COMES_AGAIN_S = 5.0
"""How long after a reconnect a message may take to come again before it is another consumer's."""

Answer = Callable[[int, int], bytes]
"""The frame that answers a hand-over, by the number of its channel and its tag."""

_Key = tuple[str, int, int, int, int]


class HandoverReceipt:
    """What one hand-over is answered by; after a loss, by what came again.

    `place` counts what had been taken of its queue when it arrived. `key` says which message and attempt it
    is, and what its body is. `own`: two that are equal are one. `answer` is what the broker was told.
    """

    __slots__ = (
        "answer",
        "arrived_s",
        "consumption",
        "exchange",
        "key",
        "own",
        "place",
        "properties",
        "redelivered",
        "routing_key",
        "tag",
    )

    def __init__(self, consumption: Consumption, method: bytes, properties: Properties) -> None:
        self.consumption = consumption
        self.arrived_s, self.place = time.monotonic(), 0
        self.tag, self.redelivered, self.exchange, self.routing_key = read_deliver(method)
        self.properties = properties
        self.key: _Key = ("", 0, 0, 0, 0)
        self.own = False
        self.answer: Answer | None = None

    def is_same(self, other: HandoverReceipt) -> bool:
        """Whether both are hand-overs of one message; their keys are known to be equal."""
        return unchanging(self.properties) == unchanging(other.properties)


class Adrift:
    """What the channels of one queue had when they were lost."""

    def __init__(self) -> None:
        self._since_s = math.inf
        self._untaken: set[_Key] = set()
        self._running: dict[_Key, list[HandoverReceipt]] = {}
        self._answered: dict[_Key, list[HandoverReceipt]] = {}

    def begin(self) -> None:
        """The queue is consumed again: what comes again comes soon."""
        self._since_s = time.monotonic()

    def lose(
        self,
        outstanding: Iterable[HandoverReceipt],
        untaken: AbstractSet[HandoverReceipt],
        answered: Iterable[HandoverReceipt],
    ) -> None:
        """A channel is lost. What an earlier one had is adrift still, when this one was too short for it to
        come again."""
        if not self._is_fresh():
            self._untaken, self._running, self._answered = set(), {}, {}
        self._since_s = math.inf
        self._untaken |= {receipt.key for receipt in untaken}
        for receipt in (*answered, *outstanding):
            if receipt.answer is not None:
                self._answered.setdefault(receipt.key, []).append(receipt)
            elif receipt not in untaken:
                self._running.setdefault(receipt.key, []).append(receipt)

    def comes_again(self, receipt: HandoverReceipt) -> bool:
        """Whether the message of a running attempt may still come again to us."""
        return self._is_fresh() and receipt in self._running.get(receipt.key, ())

    def attempt(self, fresh: HandoverReceipt) -> HandoverReceipt | None:
        """The receipt of the attempt that still runs for what came again."""
        return _take_same(self._running.get(fresh.key, []), fresh)

    def was_untaken(self, fresh: HandoverReceipt) -> bool:
        """Whether what came again was with nobody; asked once."""
        if fresh.key not in self._untaken:
            return False
        self._untaken.discard(fresh.key)
        return True

    def answer(self, fresh: HandoverReceipt) -> Answer | None:
        """What the broker was told about what came again, and did not hear."""
        if fresh.key in self._untaken:
            return None
        answered = _take_same(self._answered.get(fresh.key, []), fresh)
        return None if answered is None else answered.answer

    def forget(self, receipt: HandoverReceipt) -> None:
        """Nobody runs this attempt any more: should it come again, it is a hand-over of its own."""
        attempts = self._running.get(receipt.key, [])
        if receipt in attempts:
            attempts.remove(receipt)

    def _is_fresh(self) -> bool:
        return time.monotonic() < self._since_s + COMES_AGAIN_S


def _take_same(receipts: list[HandoverReceipt], fresh: HandoverReceipt) -> HandoverReceipt | None:
    found = next((one for one in receipts if one.is_same(fresh)), None)
    if found is not None:
        receipts.remove(found)
    return found
