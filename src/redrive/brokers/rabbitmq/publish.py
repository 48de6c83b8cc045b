"""Publishing that counts only when the broker has confirmed it: persistent, mandatory, in a window.

What cannot be routed, or whose exchange is gone, is published once more after `repair` has declared what is
missing. A message that the broker refuses for what it is, such as its size, ends the channel, and with it the
answers about its neighbours: these are published once more, one by one, and the culprit alone is refused.
Known weakness: after a lost connection nobody knows what else of a window arrived: the caller repeats it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

import aiormq
from aiormq.abc import AbstractChannel
from msgspec import Struct, field

from redrive.brokers.rabbitmq.connection import (
    BrokerLine,
    BrokerRefused,
    BrokerUnavailable,
    close_quietly,
    translated,
)
from redrive.brokers.rabbitmq.frames import (
    ACK,
    METHOD,
    NACK,
    RETURN,
    ContentTaker,
    publication,
    read_confirm,
    read_return,
)
from redrive.brokers.rabbitmq.properties import Properties
from redrive.brokers.rabbitmq.tap import send
from redrive.core.carrier import MessagesRefused, PublishingInterrupted

_WINDOW = 500
_WRITE_BYTES = 262_144
_CONFIRM_S = 30.0

Repair = Callable[[bool], Awaitable[None]]


class Post(Struct, frozen=True, gc=False):
    """One message to be published."""

    exchange: str
    routing_key: str
    body: bytes
    properties: Properties


class _Answers(Struct):
    """What a broker has said about the posts of a call, by their places: it has them, it will never take them
    and why, or no queue takes them now."""

    confirmed: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    untaken: set[int] = field(default_factory=set)


class _PostRefused(Exception):
    """The broker closed the channel because of a post of the window; its words."""


class Confirms:
    """One channel's publications and what the broker answers about them; a window at a time.

    Used no more after a window that did not end in order: its count of publications may be wrong.
    """

    def __init__(self, channel: AbstractChannel) -> None:
        self.channel = channel
        self._frame_max = channel.connection.connection_tune.frame_max
        self._returns = ContentTaker(RETURN, self._returned)
        self._published = 0
        self._posts: Sequence[Post] = ()
        self._unanswered: dict[int, int] = {}
        self._refused: set[int] = set()
        self.confirmed: set[int] = set()
        """The places of the last window that a queue has taken."""
        self.unwritable: dict[int, str] = {}
        """Those for which AMQP has no place, and why."""
        self.unrouted = False
        """Whether a queue or an exchange of the last window is gone, and not only full."""
        self._answered: asyncio.Future[None] | None = None

    async def window(self, posts: Sequence[Post], places: Sequence[int]) -> None:
        """Publish and wait until the broker has answered for each."""
        self._posts, self._refused, self._answered = posts, set(), None
        self.confirmed, self.unwritable, self.unrouted = set(), {}, False
        frames, size = [], 0
        for place in places:
            added = self._frames(place)
            frames += added
            size += sum(map(len, added))
            if size > _WRITE_BYTES:
                await send(self.channel, b"".join(frames), drained=True)
                frames, size = [], 0
        if frames:
            await send(self.channel, b"".join(frames))
        if self._unanswered:
            self._answered = self.channel.create_future()
            await self._answered

    def take(self, kind: int, payload: bytes) -> bool:
        """The answers are ours, all else is the driver's."""
        if kind == METHOD and payload.startswith((ACK, NACK)):
            self._confirmed(payload)
            return True
        return self._returns.take(kind, payload)

    def _frames(self, place: int) -> list[bytes]:
        post, number = self._posts[place], self.channel.number
        try:
            found = list(
                publication(
                    number, self._frame_max, post.exchange, post.routing_key, post.properties, post.body
                )
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, its neighbours can be written
            self.unwritable[place] = f"it cannot be written as a message of AMQP: {error}"
            return []
        self._published += 1
        self._unanswered[self._published] = place
        return found

    def _confirmed(self, method: bytes) -> None:
        last, multiple = read_confirm(method)
        for tag in list(takewhile(lambda tag: tag <= last, self._unanswered)) if multiple else (last,):
            place = self._unanswered.pop(tag, None)
            if place is not None and method.startswith(ACK) and place not in self._refused:
                self.confirmed.add(place)
        if self._answered is not None and not self._unanswered and not self._answered.done():
            self._answered.set_result(None)

    def _returned(self, method: bytes, properties: Properties, _: bytes) -> None:
        """Comes before its confirm, and names no publication: all are meant that it may be."""
        exchange, routing_key = read_return(method)
        for place in self._unanswered.values():
            post = self._posts[place]
            same = (post.properties.message_id or "") == (properties.message_id or "")
            if same and post.exchange == exchange and post.routing_key == routing_key:
                self._refused.add(place)
                self.unrouted = True


class Publisher:
    """The confirmed way out; one channel, in windows, each when it is `allowed`."""

    def __init__(self, line: BrokerLine, place: str, allowed: Callable[[], Awaitable[None]]) -> None:
        self._line = line
        self._place = place
        self._allowed = allowed
        self._confirms: Confirms | None = None
        self._lock = asyncio.Lock()

    async def publish(self, posts: Sequence[Post], repair: Repair) -> AbstractSet[int]:
        """Return after the broker has answered for each: the places of those that no queue takes, or not now.

        What was not taken is tried once more after `repair`, which hears whether something is gone. Without
        an answer PublishingInterrupted; MessagesRefused, after all others, for what it will never take.
        """
        answers = _Answers()
        try:
            for start in range(0, len(posts), _WINDOW):
                places = range(start, min(start + _WINDOW, len(posts)))
                async with self._lock:
                    await self._publish(posts, places, repair, answers)
        except BrokerUnavailable as error:
            raise PublishingInterrupted(str(error), answers.confirmed) from error
        if answers.refused:
            words = next(iter(answers.refused.values()))
            why = f"{self._place} will never take {len(answers.refused)} messages: {words}"
            raise MessagesRefused(why, answers.refused, answers.confirmed)
        return answers.untaken

    def refusal(self, post: Post) -> BrokerRefused:
        """Why a message that no queue takes is where it was."""
        where = post.exchange or "the default exchange"
        return BrokerRefused(
            f"{self._place}: {where} has no queue for the key {post.routing_key!r} that takes a message: "
            "nothing was removed; declare it or make room, then it goes on"
        )

    async def close(self) -> None:
        """Close the channel."""
        if self._confirms is not None:
            await close_quietly(self._confirms.channel)

    async def _publish(
        self, posts: Sequence[Post], places: Sequence[int], repair: Repair, answers: _Answers
    ) -> None:
        missing, gone = await self._window(posts, places, answers)
        if missing:
            await repair(gone)
            missing, _ = await self._window(posts, missing, answers)
            answers.untaken.update(missing)

    async def _window(
        self, posts: Sequence[Post], places: Sequence[int], answers: _Answers
    ) -> tuple[list[int], bool]:
        """Publish and wait for the confirms; the places of those that no queue took, and whether one is
        gone."""
        try:
            return await self._try_window(posts, places, answers)
        except _PostRefused as error:
            if len(places) == 1:
                answers.refused[places[0]] = str(error)
                return [], False
        missing, gone = list[int](), False
        for place in _unanswered(places, answers):
            untaken, lost = await self._window(posts, [place], answers)
            missing, gone = missing + untaken, gone or lost
        return missing, gone

    async def _try_window(
        self, posts: Sequence[Post], places: Sequence[int], answers: _Answers
    ) -> tuple[list[int], bool]:
        await self._allowed()
        with translated(self._place):
            confirms = await self._open()
            gone = False
            try:
                async with asyncio.timeout(_CONFIRM_S):
                    await confirms.window(posts, places)
            except aiormq.exceptions.ChannelNotFoundEntity:
                gone = True
            except aiormq.exceptions.ChannelPreconditionFailed as error:
                await self._drop(confirms)
                raise _PostRefused(str(error)) from error
            except TimeoutError:
                await self._drop(confirms)
                raise BrokerUnavailable(
                    f"{self._place} confirms nothing: it may be short of memory or disk"
                ) from None
            except BaseException:
                await self._drop(confirms)
                raise
            finally:
                answers.confirmed |= confirms.confirmed
                answers.refused |= confirms.unwritable
        return _unanswered(places, answers), gone or confirms.unrouted

    async def _open(self) -> Confirms:
        if self._confirms is None or self._confirms.channel.is_closed:
            channel = await self._line.channel()
            self._confirms = Confirms(channel)
            self._line.divert(channel, self._confirms)
        return self._confirms

    async def _drop(self, confirms: Confirms) -> None:
        self._confirms = None
        await close_quietly(confirms.channel)


def _unanswered(places: Sequence[int], answers: _Answers) -> list[int]:
    """Those that the broker does not have, and may take."""
    return [one for one in places if one not in answers.confirmed and one not in answers.refused]
