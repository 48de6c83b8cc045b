"""The frames that are read and written past the driver: the same as its own, wherever they are cut."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from redrive.brokers.rabbitmq.frames import (
    DELIVER,
    ContentTaker,
    acknowledgement,
    publication,
    read_confirm,
    read_deliver,
    read_return,
    rejection,
)
from redrive.brokers.rabbitmq.properties import UNREADABLE, read_content_header, write_content_header
from redrive.brokers.rabbitmq.tap import FrameTap

_texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)
_instants = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - made aware here
    lambda one: one.replace(microsecond=0, tzinfo=UTC)
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _texts | _instants,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_named = {
    **dict.fromkeys(
        ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id"), _texts
    ),
    **dict.fromkeys(("message_type", "user_id", "app_id"), _texts),
    "headers": st.dictionaries(_texts, _values, max_size=4),
    "delivery_mode": st.sampled_from([1, 2]),
    "priority": st.integers(0, 255),
    "timestamp": _instants,
}


def _made(given: dict[str, Any]) -> commands.Basic.Properties:
    return commands.Basic.Properties(**given)


_properties = st.fixed_dictionaries({}, optional=_named).map(_made)


def _as_text(value: Any) -> Any:
    """Bytes that are text are read as text."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _header(properties: commands.Basic.Properties, size: int) -> bytes:
    return ContentHeader(properties=properties, body_size=size).marshal()


def _delivery(channel: int, tag: int, key: str, *bodies: bytes) -> bytes:
    method = commands.Basic.Deliver("ctag", tag, tag % 2 == 0, "events", key)
    header = ContentHeader(properties=commands.Basic.Properties(), body_size=sum(map(len, bodies)))
    frames = [pamqp.frame.marshal(one, channel) for one in (method, header)]
    return b"".join([*frames, *(pamqp.frame.marshal(ContentBody(one), channel) for one in bodies)])


@given(_properties, st.integers(0, 2**40))
def test_properties_are_read_as_the_driver_reads_them(
    properties: commands.Basic.Properties, size: int
) -> None:
    raw = _header(properties, size)
    theirs = ContentHeader()
    theirs.unmarshal(raw)
    assert read_content_header(raw) == (theirs.properties, size)


@given(_properties, st.binary(max_size=300), _texts, st.sampled_from(["", "dlq.q.one"]))
def test_a_publication_is_read_by_the_driver_as_it_was_meant(
    properties: commands.Basic.Properties, body: bytes, key: str, exchange: str
) -> None:
    most = max(100, len(write_content_header(properties, len(body))) + 8)
    raw, frames = b"".join(publication(7, most, exchange, key, properties, body)), []
    while raw:
        used, channel, frame = pamqp.frame.unmarshal(raw)
        assert channel == 7
        assert used <= most or isinstance(frame, commands.Basic.Publish)
        frames.append(frame)
        raw = raw[used:]
    method, header, *parts = frames
    assert isinstance(method, commands.Basic.Publish)
    assert (method.exchange, method.routing_key, method.mandatory) == (exchange, key, True)
    assert isinstance(header, ContentHeader)
    meant = ContentHeader()
    meant.unmarshal(_header(properties, len(body)))
    assert (header.properties, header.body_size) == (meant.properties, len(body))
    assert b"".join(one.value for one in parts if isinstance(one, ContentBody)) == body


@given(_properties, st.dictionaries(_texts, _values | st.binary(max_size=9) | st.floats(allow_nan=False)))
def test_what_was_read_is_written_as_it_was(
    properties: commands.Basic.Properties, table: dict[str, Any]
) -> None:
    properties.headers = table
    read, size = read_content_header(write_content_header(properties, 3))
    assert size == 3
    again, _ = read_content_header(write_content_header(read, 3))
    assert again == read
    assert read.headers == {name: _as_text(value) for name, value in table.items()}


def test_properties_that_are_no_text_and_no_time_do_not_stand_in_the_way() -> None:
    properties = commands.Basic.Properties(
        message_id="m-ab", timestamp=datetime.now(UTC), headers={"a": "ab"}
    )
    raw = write_content_header(properties, 0).replace(b"ab", b"\xff\xfe")
    read, _ = read_content_header(raw[:-8] + b"\xff" * 8)
    assert (read.message_id, read.headers) == ("m-\udcff\udcfe", {"a": b"\xff\xfe"})
    assert write_content_header(read, 0) == raw[:-8] + b"\xff" * 8


def test_properties_that_nobody_can_read_travel_as_they_are() -> None:
    cut = write_content_header(commands.Basic.Properties(headers={"a": "b", "c": 1}), 0)[:-3]
    read, _ = read_content_header(cut)
    assert read.headers == {UNREADABLE: cut}
    assert read_content_header(write_content_header(read, 0))[0] == read


@pytest.mark.parametrize("table", [{"a": 2**64}, {"a": object()}, {"a" * 256: 1}])
def test_what_amqp_has_no_place_for_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        write_content_header(commands.Basic.Properties(headers=table), 0)


def test_headers_that_fill_more_than_a_frame_are_refused() -> None:
    properties = commands.Basic.Properties(headers={"a": "x" * 5_000})
    with pytest.raises(ValueError, match="a frame holds 4,096"):
        list(publication(1, 4_096, "", "q.one", properties, b""))


def test_answers_are_those_of_the_driver() -> None:
    marshal = pamqp.frame.marshal
    assert acknowledgement(3, 2**40, multiple=True) == marshal(commands.Basic.Ack(2**40, True), 3)
    assert acknowledgement(3, 5) == marshal(commands.Basic.Ack(5, False), 3)
    assert rejection(3, 5, requeue=True) == marshal(commands.Basic.Reject(5, True), 3)
    assert rejection(3, 5, requeue=False) == marshal(commands.Basic.Reject(5, False), 3)
    confirm = marshal(commands.Basic.Nack(9, True, False), 3)
    assert read_confirm(confirm[7:-1]) == (9, True)
    returned = marshal(commands.Basic.Return(312, "NO_ROUTE", "events", "a.b"), 3)
    assert read_return(returned[7:-1]) == ("events", "a.b")


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 64, 10_000])
async def test_deliveries_are_taken_and_the_rest_is_the_drivers_wherever_the_bytes_are_cut(size: int) -> None:
    tap, taken = FrameTap(), list[Any]()

    def complete(method: bytes, _: commands.Basic.Properties, body: bytes) -> None:
        taken.append((*read_deliver(method), body))

    tap.takers[2] = ContentTaker(DELIVER, complete)
    consumed = pamqp.frame.marshal(commands.Basic.ConsumeOk("ctag"), 2)
    elsewhere, closed = (
        _delivery(1, 1, "k", b"x"),
        pamqp.frame.marshal(commands.Channel.Close(404, "gone", 60, 40), 2),
    )
    stream = b"".join(
        (
            consumed,
            _delivery(2, 1, "a.b", b"one"),
            elsewhere,
            _delivery(2, 2, "c", b"two", b"two" * 100),
            _delivery(2, 3, ""),
            closed,
        )
    )
    for start in range(0, len(stream), size):
        tap.feed_data(stream[start : start + size])
    tap.feed_eof()
    assert taken == [
        (1, False, "events", "a.b", b"one"),
        (2, True, "events", "c", b"twotwo" + b"two" * 99),
        (3, False, "events", "", b""),
    ]
    passed = (await tap.read()).replace(pamqp.frame.marshal(Heartbeat(), 0), b"")
    assert passed == consumed + elsewhere + closed


async def test_a_driver_whose_frames_are_all_taken_still_gets_a_sign_of_life() -> None:
    tap = FrameTap()
    tap.takers[2] = ContentTaker(DELIVER, lambda *_: None)
    for tag in range(1, 50):
        tap.feed_data(_delivery(2, tag, "k", b"x"))
    async with asyncio.timeout(5):
        assert pamqp.frame.unmarshal(await tap.readexactly(8))[2].name == "Heartbeat"


async def test_a_server_that_speaks_another_protocol_is_left_to_the_driver() -> None:
    tap = FrameTap()
    tap.feed_data(b"AMQP\x00\x00\x09\x01")
    for _ in range(2):
        tap.feed_eof()
    assert await tap.read() == b"AMQP\x00\x00\x09\x01"
