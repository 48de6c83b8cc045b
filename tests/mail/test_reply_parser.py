"""Replies cut out of bytes: good ones in any pieces, bad ones only ever a ProtocolError."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.mail.smtp.errors import ProtocolError
from redrive.mail.smtp.reply_parser import MAX_LINE, MAX_LINES, ReplyParser, ServerReply


def parse(*pieces: bytes) -> list[ServerReply]:
    parser = ReplyParser()
    return [reply for piece in pieces for reply in parser.feed(piece)]


def test_a_reply_of_many_lines_is_one_reply() -> None:
    (reply,) = parse(b"550-5.1.1 The account does not\r\n550-5.1.1 exist. Please\r\n550 5.1.1 check it\r\n")
    assert (reply.code, reply.enhanced) == (550, "5.1.1")
    assert reply.text == "The account does not exist. Please check it"
    assert str(reply) == "550 5.1.1 The account does not exist. Please check it"


@pytest.mark.parametrize(
    ("line", "code", "enhanced", "text"),
    [
        (b"250\r\n", 250, None, ""),
        (b"250 \r\n", 250, None, ""),
        (b"250 ok\n", 250, None, "ok"),
        (b"421 4.7.0\r\n", 421, "4.7.0", ""),
        (b"550 5.7.1234 no\r\n", 550, None, "5.7.1234 no"),
        (b"550 4.2.2 full\r\n", 550, "4.2.2", "full"),
        (b"550 caf\xe9\r\n", 550, None, "café"),
        (b"550 caf\xc3\xa9\r\n", 550, None, "café"),
    ],
)
def test_a_line_gives_its_code_enhanced_code_and_text(
    line: bytes, code: int, enhanced: str | None, text: str
) -> None:
    (reply,) = parse(line)
    assert (reply.code, reply.enhanced, reply.text) == (code, enhanced, text)


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"hello\r\n",
        b"25\r\n",
        b"2500 ok\r\n",
        b"250ok\r\n",
        b"199 no\r\n",
        b"650 no\r\n",
        b"250-one\r\n251 two\r\n",
        b"250-one\r\ntwo\r\n",
        "\N{FULLWIDTH DIGIT TWO}50 ok\r\n".encode(),
        b"x" * (MAX_LINE + 1),
        b"250 " + b"x" * MAX_LINE + b"\r\n",
        b"250-more\r\n" * MAX_LINES,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
    ],
)
def test_anything_odd_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(data)


def test_good_replies_before_an_odd_line_are_given_first() -> None:
    replies = ReplyParser().feed(b"250 taken\r\nrubbish\r\n")
    assert next(replies).code == 250
    with pytest.raises(ProtocolError):
        next(replies)


REPLIES = st.lists(
    st.tuples(
        st.integers(200, 599),
        st.lists(
            st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"").replace(b"\r", b"")), max_size=4
        ),
    ),
    max_size=5,
)


@given(REPLIES, st.lists(st.integers(0, 400), max_size=10), st.sampled_from([b"\n", b"\r\n"]))
def test_how_the_bytes_are_cut_makes_no_difference(
    replies: list[tuple[int, list[bytes]]], cuts: list[int], end: bytes
) -> None:
    data = b""
    for code, lines in replies:
        *first, last = lines or [b""]
        data += b"".join(b"%d-%b%b" % (code, line, end) for line in first) + b"%d %b%b" % (code, last, end)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:stop] for start, stop in pairwise(edges)]
    expected = [ServerReply(code, tuple(lines or [b""])) for code, lines in replies]
    assert parse(*pieces) == parse(data) == expected


@given(
    st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([b"250 ok\r\n", b"250-", b"\r\n", b"354 "])))
)
def test_no_bytes_raise_anything_but_a_protocol_error(pieces: list[bytes]) -> None:
    parser = ReplyParser()
    try:
        for piece in pieces:
            for reply in parser.feed(piece):
                assert 200 <= reply.code <= 599
                assert isinstance(str(reply), str)
    except ProtocolError:
        return


def test_a_drip_of_bytes_costs_no_more_than_its_length() -> None:
    """Quadratic work on 1 MB of single bytes would take minutes."""
    parser = ReplyParser()
    line = b"250 " + b"x" * 2_000 + b"\r\n"
    began = time.process_time()
    count = sum(1 for _ in range(100) for byte in line for _ in parser.feed(bytes((byte,))))
    assert count == 100
    assert time.process_time() - began < 10
