"""One connection to the broker, made again when it is lost: nobody else connects.

Two are used side by side, since a broker that is short of memory stops reading from a connection that
publishes, and with it acknowledgements on the same connection.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection
from pamqp import constants

from redrive.brokers.rabbitmq.tap import Taker, TappedTransport
from redrive.core.errors import StoreError, StoreUnavailable

ANSWER_S = 30.0
"""How long a broker may take to answer a call; one that is silent for longer is asked again."""

_CONNECT_S = 10.0
_HEARTBEAT_S = "15"
_CLOSE_S = 2.0
_NOT_ALLOWED, _FULL = 530, "limit"
"""The code of a broker that does not let a user in here; it is the same where too many are."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
# The driver's library refuses names of queues and exchanges that the broker takes, and others have given.
constants.DOMAIN_REGEX.update({kind: re.compile(r"[^\r\n]*") for kind in ("queue-name", "exchange-name")})
logging.getLogger("aiormq").addHandler(logging.NullHandler())  # its errors are raised, and told by us


class BrokerUnavailable(StoreUnavailable):
    """The broker does not answer now; the same call may succeed later."""


class BrokerRefused(StoreError):
    """The broker refuses a call, and would refuse it again."""


class BrokerLine:
    """A connection that is made with the first use, and again with the first use after its loss; each time
    `connected` is called, before anybody uses it."""

    def __init__(self, url: str, place: str, name: str, connected: Callable[[], None] = lambda: None) -> None:
        self._url = with_heartbeat(url)
        self._place = place
        self._name = name
        self._connected = connected
        self._connection: AbstractConnection | None = None
        self._transport = TappedTransport()
        self._lock = asyncio.Lock()

    async def connection(self) -> AbstractConnection:
        """The live connection; BrokerUnavailable when there is none to be had."""
        async with self._lock:
            if self._connection is None or self._connection.is_closed:
                with translated(self._place, ": start it, or check the address in `store`"):
                    self._connection = await self._connect()
                self._connected()
            return self._connection

    async def _connect(self) -> AbstractConnection:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await aiormq.connect(
                    self._url,
                    client_properties={"connection_name": self._name},
                    transport_factory=self._transport,
                )
        except aiormq.exceptions.InvalidFrameError as error:
            if self._transport.last_words is None:
                raise
            code, text = self._transport.last_words
            if code == _NOT_ALLOWED and _FULL not in text:
                raise aiormq.exceptions.ConnectionNotAllowed(text) from error
            raise aiormq.exceptions.AMQPConnectionError(text) from error

    async def channel(self, *, confirms: bool = True) -> AbstractChannel:
        """A new channel; whoever asked closes it."""
        connection = await self.connection()
        with translated(self._place):
            async with asyncio.timeout(_CONNECT_S):
                return await connection.channel(publisher_confirms=confirms, on_return_raises=True)

    def divert(self, channel: AbstractChannel, taker: Taker) -> None:
        """Let a taker have the first look at the frames of a channel that was just opened."""
        takers, number = self._transport.tap.takers, channel.number
        if channel.connection is not self._connection or channel.is_closed:
            raise BrokerUnavailable(f"{self._place} does not answer: the connection was lost")
        takers[number] = taker

        def leave(_: object) -> None:
            if takers.get(number) is taker:
                del takers[number]

        channel.closing.add_done_callback(leave)

    @asynccontextmanager
    async def passing_channel(self) -> AsyncIterator[AbstractChannel]:
        """A channel for a few calls: the broker closes it when it refuses one."""
        channel = await self.channel(confirms=False)
        try:
            with translated(self._place):
                async with asyncio.timeout(ANSWER_S):
                    yield channel
        finally:
            await close_quietly(channel)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncIterator[None]:
        """Hold a lock that no other connection has; the broker frees it when the connection is lost."""
        async with asyncio.timeout(ANSWER_S):
            while not await self._try_lock(name):  # noqa: ASYNC110 - nobody tells when it is free
                await asyncio.sleep(random.uniform(0.05, 0.2))  # noqa: S311 - spreads those who wait
        try:
            yield
        finally:
            async with self.passing_channel() as channel:
                await channel.queue_delete(name)

    async def _try_lock(self, name: str) -> bool:
        """An exclusive queue stands for it: another connection may not even declare it."""
        try:
            async with self.passing_channel() as channel:
                await channel.queue_declare(name, exclusive=True)
        except BrokerUnavailable as error:
            if isinstance(error.__cause__, aiormq.exceptions.ChannelLockedResource):
                return False
            raise
        return True

    async def server(self) -> tuple[str, str]:
        """The broker's product and version."""
        properties = (await self.connection()).server_properties
        return str(properties.get("product", "RabbitMQ")), str(properties.get("version", "unknown"))

    async def close(self) -> None:
        """Close what is open."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed:
            await close_quietly(connection)

    def abandon(self) -> None:
        """Let go without a word: the loop is closed."""
        self._connection = None


@contextmanager
def translated(place: str, advice: str = "") -> Iterator[None]:
    """The driver's errors as ours; `place` names the broker without a password, `advice` says what to do
    about one that does not answer."""
    try:
        yield
    except (aiormq.exceptions.AuthenticationError, aiormq.exceptions.ProbableAuthenticationError) as error:
        raise BrokerRefused(f"{place} refuses this user or password; check the address in `store`") from error
    except ssl.SSLCertVerificationError as error:
        raise BrokerRefused(
            f"{place}: its certificate is not believed ({error.verify_message}): name the file of its "
            "authority in `store`: amqps://…?cafile=FILE"
        ) from error
    except aiormq.exceptions.ChannelPreconditionFailed as error:
        raise BrokerRefused(
            f"{place}: something stands there with other settings ({error}): compare with "
            "`redrive rabbitmq topology diff`, which also says how to change it"
        ) from error
    except aiormq.exceptions.ChannelAccessRefused as error:
        raise BrokerRefused(f"{place}: this user lacks a permission ({error})") from error
    except aiormq.exceptions.ConnectionNotAllowed as error:
        raise BrokerRefused(f"{place} refuses the connection ({error}): check the virtual host") from error
    except (aiormq.exceptions.AMQPError, OSError, TimeoutError, RuntimeError) as error:
        if _speaks_no_tls(error):
            raise BrokerUnavailable(
                f"{place} answers without TLS: write amqp://, or the port that takes amqps://, mostly 5671"
            ) from error
        why = str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)
        raise BrokerUnavailable(f"{place} does not answer: {why}{advice}") from error
    except asyncio.CancelledError as error:
        if _was_cancelled():
            raise
        raise BrokerUnavailable(f"{place} does not answer: the channel was closed") from error


def _speaks_no_tls(error: Exception) -> bool:
    cause = error.__cause__
    return isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS


def _was_cancelled() -> bool:
    """Whether somebody cancels this task, and not the driver its own futures."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def close_quietly(one: AbstractChannel | AbstractConnection) -> None:
    """Close, also what is broken: the driver may cancel its own futures then."""
    with suppress(Exception):
        try:
            async with asyncio.timeout(_CLOSE_S):
                await one.close()
        except asyncio.CancelledError:
            if _was_cancelled():
                raise


def with_heartbeat(url: str) -> str:
    """The address with a heartbeat, so that a broker that is gone is noticed."""
    parts = urlsplit(url)
    query = {"heartbeat": _HEARTBEAT_S, **dict(parse_qsl(parts.query))}
    return urlunsplit(parts._replace(query=urlencode(query)))
