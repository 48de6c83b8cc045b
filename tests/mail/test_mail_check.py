"""Checking a mail: every problem is found, named by its field, and nothing gets into a header."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.core.errors import InvalidMessage
from redrive.mail.writing.checked import MAX_BYTES, check
from redrive.mail.writing.mail import Attachment, InvalidMail, Mail, decode, encode
from tests.mail.mails import CONTROLS, MAILS, read, rendered

GOOD: dict[str, object] = {"from_": "a@example.org", "to": "b@example.org", "text": "Hello"}
FILE = {"filename": "a.pdf", "content": "YQ==", "content_type": "application/pdf"}


def mail(**fields: object) -> Mail:
    return Mail(**(GOOD | fields))  # type: ignore[arg-type]


def file(**fields: object) -> list[Attachment]:
    return [Attachment(**(FILE | fields))]  # type: ignore[arg-type]


def problems(given: Mail) -> list[tuple[str, str]]:
    with pytest.raises(InvalidMail) as caught:
        check(given)
    return [tuple(problem) for problem in caught.value.problems]


BAD = [
    ({"from_": "nobody"}, "from"),
    ({"to": ()}, "to"),
    ({"to": "a@b@c d"}, "to"),
    ({"to": ["a@example.org", "x"]}, "to[1]"),
    ({"cc": ["x"]}, "cc[0]"),
    ({"bcc": "x"}, "bcc"),
    ({"to": ["a@example.org"] * 1_001}, "to"),
    ({"to": ["a@example.org"] * 600, "bcc": ["a@example.org"] * 401}, "to"),
    ({"reply_to": "x"}, "replyTo"),
    ({"reply_to": ["a@example.org"] * 21}, "replyTo"),
    ({"text": None}, "text"),
    ({"text": "a\0b"}, "text"),
    ({"html": "a\ud800b"}, "html"),
    ({"subject": "s" * 999}, "subject"),
    ({"headers": {"X-A\r\nBcc": "x"}}, "headers[0]"),
    ({"headers": {"": "x"}}, "headers[0]"),
    ({"headers": {"X A": "x"}}, "headers[0]"),
    ({"headers": {"X-Ä": "x"}}, "headers[0]"),
    ({"headers": {"X-A\n": "x"}}, "headers[0]"),
    ({"headers": {"X" * 77: "x"}}, "headers[0]"),
    ({"headers": {"X-A": "x" * 32_768}}, "headers"),
    ({"headers": {"X-A": "1", "x-a": "2"}}, "headers.x-a"),
    ({"headers": {"Sender": "x"}}, "headers.Sender"),
    ({"headers": {"reply-to": "c@example.org"}, "reply_to": "c@example.org"}, "headers.reply-to"),
    ({"list_unsubscribe": "ftp://example.org"}, "listUnsubscribe[0]"),
    ({"list_unsubscribe": "https://example.org/a b"}, "listUnsubscribe[0]"),
    ({"list_unsubscribe": "https://example.org/>"}, "listUnsubscribe[0]"),
    ({"list_unsubscribe": ["https://example.org/"] * 11}, "listUnsubscribe"),
    ({"tags": [""]}, "tags[0]"),
    ({"tags": ["t"] * 51}, "tags"),
    ({"attachments": file() * 101}, "attachments"),
    ({"attachments": file(filename=" ")}, "attachments[0].filename"),
    ({"attachments": file(filename="f" * 256)}, "attachments[0].filename"),
    ({"attachments": file(content="not base64!")}, "attachments[0].content"),
    ({"attachments": file(content="YQ")}, "attachments[0].content"),
    ({"attachments": file(content="YQ==YQ==")}, "attachments[0].content"),
    ({"attachments": file(content="Yé==")}, "attachments[0].content"),
    ({"attachments": file(content_type="pdf")}, "attachments[0].contentType"),
    ({"attachments": file(content_type="a/b\r\nX: y")}, "attachments[0].contentType"),
    ({"attachments": file(content_type="a/b; c")}, "attachments[0].contentType"),
    ({"attachments": file(content_type="multipart/mixed; boundary=a")}, "attachments[0].contentType"),
    ({"attachments": file(content_type="message/partial")}, "attachments[0].contentType"),
    ({"attachments": file(content_id="")}, "attachments[0].contentId"),
    ({"attachments": file(content_id="a>b")}, "attachments[0].contentId"),
]
REFUSED = (
    "Bcc Received Return-Path DKIM-Signature From To Cc Subject Date Message-ID MIME-Version "
    "Content-Type content-transfer-encoding CONTENT-DISPOSITION Resent-Bcc Resent-To"
)


@pytest.mark.parametrize(("fields", "field"), BAD)
def test_one_wrong_field_is_the_one_problem(fields: dict[str, object], field: str) -> None:
    assert [name for name, _ in problems(mail(**fields))] == [field]


@pytest.mark.parametrize("name", [*REFUSED.split(), *REFUSED.lower().split()])
def test_headers_that_are_not_the_callers_are_refused(name: str) -> None:
    assert [field for field, _ in problems(mail(headers={name: "x@example.org"}))] == [f"headers.{name}"]


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("from", {"from_": "A{} <a@example.org>"}),
        ("from", {"from_": "a{}@example.org"}),
        ("to", {"to": "b@example{}.org"}),
        ("to[0]", {"to": ["{}b@example.org"]}),
        ("cc", {"cc": "b@example.org{}"}),
        ("bcc", {"bcc": '"{}"@example.org'}),
        ("replyTo", {"reply_to": '"{}" <c@example.org>'}),
        ("subject", {"subject": "Hello{}Bcc: x@example.org"}),
        ("headers.X-A", {"headers": {"X-A": "a{}Bcc: x@example.org"}}),
        ("headers.Sender", {"headers": {"Sender": "a@example.org{}"}}),
        ("headers[0]", {"headers": {"X-A{}Bcc": "x"}}),
        ("listUnsubscribe[0]", {"list_unsubscribe": "https://example.org/{}"}),
        ("tags[0]", {"tags": ["a{}b"]}),
        ("attachments[0].filename", {"attachments": file(filename="a{}b")}),
        ("attachments[0].contentType", {"attachments": file(content_type="text/{}plain")}),
        ("attachments[0].contentId", {"attachments": file(content_id="a{}b")}),
    ],
)
def test_no_control_character_passes_in_anything_that_becomes_a_header(
    control: str, field: str, fields: dict[str, object]
) -> None:
    spoiled = {name: _spoil(value, control) for name, value in fields.items()}
    assert field in [name for name, _ in problems(mail(**spoiled))]


def _spoil(value: object, control: str) -> object:
    match value:
        case str():
            return value.replace("{}", control)
        case dict():
            return {_spoil(name, control): _spoil(one, control) for name, one in value.items()}
        case list():
            return [_spoil(one, control) for one in value]
        case Attachment():
            return Attachment(
                **{name: _spoil(getattr(value, name), control) for name in value.__struct_fields__}
            )
    return value


@given(
    MAILS, st.text(st.sampled_from("\r\n\0 \tBc:x@\x85\u2028a-"), min_size=1, max_size=12), st.integers(0, 6)
)
@settings(max_examples=150, deadline=None)
def test_a_mail_is_refused_or_has_exactly_the_headers_it_should(good: Mail, hostile: str, place: int) -> None:
    spoiled = [
        {"subject": f"a{hostile}"},
        {"headers": {f"X-{hostile}": "a"}},
        {"headers": {"X-A": f"a{hostile}"}},
        {"from_": f'"{hostile}" <a@example.org>'},
        {"to": f"a{hostile}@example.org"},
        {"attachments": file(filename=f"a{hostile}")},
        {"text": hostile, "html": hostile},
    ][place]
    fields = {name: getattr(good, name) for name in good.__struct_fields__} | spoiled
    try:
        content = rendered(Mail(**fields))
    except InvalidMail:
        return
    wanted = ["From", "To", *(["Cc"] if good.cc else []), *(["Reply-To"] if good.reply_to else [])]
    wanted += ["Subject", "Date", "Message-ID", *fields["headers"], "MIME-Version", "Content-Type"]
    assert [name for name in read(content) if name != "Content-Transfer-Encoding"] == wanted


def test_all_problems_are_collected_and_the_error_shows_the_first() -> None:
    bad = mail(from_="x", to=["y", "z"], subject="a\nb", text=None, headers={"Bcc": "q"}, tags=["\0"])
    with pytest.raises(InvalidMail) as caught:
        check(bad)
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["from", "to[0]", "to[1]", "subject", "text", "headers.Bcc", "tags[0]"]
    assert isinstance(caught.value, InvalidMessage)
    assert "to[1]" in str(caught.value)
    assert "and 2 more" in str(caught.value)


def test_a_problem_never_repeats_what_the_mail_says() -> None:
    hidden = "hunter2\n"
    bad = mail(
        from_=hidden, to=[hidden], subject=hidden, headers={hidden: hidden}, attachments=file(content=hidden)
    )
    assert "hunter2" not in str(problems(bad))


def test_a_mail_over_25_mib_is_refused_and_one_at_the_limit_is_not() -> None:
    check(mail(text="x" * MAX_BYTES))
    assert "bytes" in problems(mail(text="x" * MAX_BYTES + "y"))[0][1]
    assert "bytes" in problems(mail(text="é" * (MAX_BYTES // 2 + 1)))[0][1]
    assert "bytes" in problems(mail(attachments=file(content="A" * MAX_BYTES)))[0][1]


def test_each_recipient_is_listed_once_in_order() -> None:
    checked = check(
        mail(to=["b@example.org", "A <a@EXAMPLE.org>"], cc="a@example.org", bcc=["c@example.org"])
    )
    assert [one.envelope for one in checked.recipients] == ["b@example.org", "a@example.org", "c@example.org"]


def test_base64_in_lines_is_accepted() -> None:
    (attachment,) = check(mail(attachments=file(content="YWJj\r\nYWJj\n"))).attachments
    assert attachment.content == "YWJjYWJj"


def test_texts_lose_the_spaces_around_them() -> None:
    checked = check(mail(subject="  a  b ", headers={"X-A": " c "}, attachments=file(filename=" f.pdf ")))
    assert (checked.subject, checked.headers) == ("a  b", (("X-A", "c"),))
    assert checked.attachments[0].filename == "f.pdf"


def test_the_wire_names_are_camel_case_and_from_is_from() -> None:
    document = (
        b'{"from":"a@example.org","to":["b@example.org"],"replyTo":"c@example.org","text":"t",'
        b'"attachments":[{"filename":"f","content":"YQ==","contentType":"a/b","contentId":"i"}],'
        b'"listUnsubscribe":"https://example.org"}'
    )
    decoded = decode(document)
    assert decoded.from_ == "a@example.org"
    assert decoded.attachments[0].content_id == "i"
    assert decode(encode(decoded)) == decoded


@given(MAILS)
@settings(max_examples=50, deadline=None)
def test_a_mail_is_the_same_after_the_wire(given_mail: Mail) -> None:
    assert rendered(decode(encode(given_mail))) == rendered(given_mail)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (b"{", ""),
        (b"\xff", ""),
        (b'{"from":"\xff"}', ""),
        (b"[]", ""),
        (b"{}", ""),
        (b'{"from":"a","ttl":1}', ""),
        (b'{"from":1}', "from"),
        (b'{"from":"a","to":[1]}', "to[0]"),
        (b'{"from":"a","to":{}}', "to"),
        (b'{"from":"a","headers":{"X":1}}', "headers[...]"),
        (b'{"from":"a","attachments":[{"filename":"f"}]}', "attachments[0]"),
        (b'{"from":"a","text":' + b"[" * 100_000, "text"),
    ],
)
def test_a_document_that_does_not_fit_is_refused_by_field(document: bytes, field: str) -> None:
    with pytest.raises(InvalidMail) as caught:
        decode(document)
    assert [problem.field for problem in caught.value.problems] == [field]
    assert caught.value.problems[0].problem
