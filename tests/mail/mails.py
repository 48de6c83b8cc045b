"""What the mail tests share: hypothesis strategies for mails, and reading what was rendered."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from hypothesis import strategies as st

from redrive.mail.writing.checked import Checked, check
from redrive.mail.writing.mail import Attachment, Mail
from redrive.mail.writing.render import render

MESSAGE_ID = "<0190-mail@example.org>"
DATE = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)

CONTROLS = [*map(chr, range(32)), "\x7f", "\x80", "\x85", "\x9f", "\u2028", "\u2029", "\ud800", "\udfff"]

_VISIBLE = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
_TRICKY = st.sampled_from(
    [
        "=?utf-8?q?x?=",
        "=?utf-8?b?eA==?=",
        "=?",
        "?=",
        "  ",
        "Größe",
        "👩‍👩‍👧‍👦",
        "שלום עולם",
        "\u200f\u0645\u0631\u062d\u0628\u0627",
        "日本語",
        "a" * 80,
        "x" * 1_100,
        'say "hi"',
        "back\\slash",
        "a,b;c:d<e>f@g(h)[i]",
        "%41%00",
        "'quoted'",
        "_under_score_",
    ]
)
LINES = st.lists(st.one_of(st.text(_VISIBLE, max_size=30), _TRICKY), max_size=6).map(" ".join)
_SHAPES = st.sampled_from(
    [
        ".",
        "..",
        ".leading dot",
        "From here",
        "trailing  ",
        "\ttab",
        "",
        "-- ",
        "--=_mixed_",
        "=3D=",
        "y" * 2_000,
    ]
)
_CONTENT = st.one_of(
    _SHAPES, LINES, st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
)
BODIES = st.lists(st.tuples(_CONTENT, st.sampled_from(["\n", "\r\n", "\r", ""])), max_size=8).map(
    lambda pieces: "".join([line + end for line, end in pieces])
)
_NAMES = st.text(_VISIBLE, max_size=80) | _TRICKY.filter(lambda text: len(text) < 200)
_LOCALS = st.from_regex(r"[a-z0-9]{1,9}(\.[a-z]{1,9})?", fullmatch=True)


def address(name: str, local: str) -> str:
    """An address as it is submitted."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}" <{local}@example.org>'


ADDRESSES = st.builds(address, _NAMES, _LOCALS)
FILENAMES = LINES.map(lambda text: text[:120].strip(" ")).filter(bool)
ATTACHMENTS = st.builds(
    lambda filename, data, kind, identity: Attachment(
        filename=filename, content=Attachment.of("", data).content, content_type=kind, content_id=identity
    ),
    FILENAMES,
    st.binary(max_size=200),
    st.sampled_from(["application/pdf", "image/png", "text/csv; charset=utf-8"]),
    st.sampled_from([None, None, "logo@example.org", "<image-1>"]),
)
HEADERS = st.dictionaries(st.from_regex(r"X-[A-Za-z0-9-]{1,70}", fullmatch=True), LINES, max_size=3).filter(
    lambda headers: len({name.lower() for name in headers}) == len(headers)
)
MAILS = st.builds(
    Mail,
    from_=ADDRESSES,
    to=st.lists(ADDRESSES, min_size=1, max_size=4),
    cc=st.lists(ADDRESSES, max_size=2),
    bcc=st.just("hidden@blind.example"),
    reply_to=st.lists(ADDRESSES, max_size=2),
    subject=LINES.map(lambda text: text[:998]),
    text=BODIES,
    html=st.none() | BODIES,
    headers=HEADERS,
    attachments=st.lists(ATTACHMENTS, max_size=3),
)


@dataclass(frozen=True, slots=True)
class File:
    """An attachment as it was read."""

    filename: str | None
    content_type: str
    content_id: str | None
    data: bytes


def rendered(mail: Mail) -> bytes:
    """The mail's bytes."""
    return render(check(mail), message_id=MESSAGE_ID, date=DATE)


def read(content: bytes) -> EmailMessage:
    """The bytes as the standard package reads them."""
    message = message_from_bytes(content, policy=default)
    assert isinstance(message, EmailMessage)
    return message


def body(message: EmailMessage, kind: str) -> str | None:
    """The text of a kind, with LF line ends."""
    part = message.get_body((kind,))
    return None if part is None else plain_lines(str(part.get_content()))


def squeezed(name: str) -> str:
    """A display name without white space, of which the standard package reads too little or too much.

    It drops hard and wide spaces, and keeps the space between two encoded words (against RFC 2047). That the
    words are right to the letter is tested on their own.
    """
    return "".join(name.split())


def plain_lines(text: str) -> str:
    """LF line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def ended(text: str | None) -> str | None:
    """A submitted text as it has to arrive: LF line ends, the last one always there."""
    if text is None:
        return None
    text = plain_lines(text)
    return text if text.endswith("\n") else text + "\n"


def files(message: EmailMessage) -> list[File]:
    """Everything with a file name, in order."""
    found = []
    for part in message.walk():
        if part.get_content_disposition() is not None:
            data = part.get_payload(decode=True)
            assert isinstance(data, bytes)
            found.append(File(part.get_filename(), part.get_content_type(), part["Content-ID"], data))
    return found


def expected_files(checked: Checked) -> list[File]:
    """What `files` has to find: first what the HTML shows, then the rest."""
    shown = [one for one in checked.attachments if one.content_id and checked.html is not None]
    rest = [one for one in checked.attachments if not (one.content_id and checked.html is not None)]
    return [
        File(
            one.filename.strip(),  # as get_filename does
            one.content_type.partition(";")[0],
            f"<{one.content_id}>" if one.content_id else None,
            b64decode(one.content),
        )
        for one in shown + rest
    ]
