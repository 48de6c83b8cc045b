"""A mail server's answer taken apart, and what a judgement of it looks like.

`Reply.parse` finds the code, the enhanced code, the stage and the error's name in whatever reached us: a
bare SMTP reply of one or many lines, a log line around one, an SDK's error, an exception's text. What our
own connection received comes by `Reply.received` and is not parsed again. Nothing is decided here: that is
`rules`. Known weakness: a text may name several codes; the first credible one counts. Only the first part of
a text is read, and every pattern is linear.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from enum import StrEnum

from redrive.core.failure import Kind, Scope
from redrive.mail.judging.wording import READ

_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([nrt\\'\"/]))")
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
_WRITTEN = {"n": "\n", "r": "\r", "t": "\t"}
_SUSPECT = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u02dc\u2013-\u2122]")


def readable(text: str) -> str:
    """The text with escapes, entities and a wrong decoding undone."""
    if "\\" in text:
        text = _ESCAPED.sub(_letter, text)
    if "&" in text:
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    return _decoded_once(text) if _SUSPECT.search(text) else text


def _letter(found: re.Match[str]) -> str:
    if found[3]:
        return _WRITTEN.get(found[3], found[3])
    return chr(int(found[1] or found[2], 16))


def _decoded_once(text: str) -> str:
    """UTF-8 that was read as Latin-1 or Windows-1252, read again; anything else unchanged."""
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return text


class Action(StrEnum):
    """What to do about a reply."""

    RETRY = "retry"
    RETRY_SLOW = "retry_slow"
    RETRY_ELSEWHERE = "retry_elsewhere"
    SPLIT = "split"
    FAIL_RECIPIENT = "fail_recipient"
    FAIL_MESSAGE = "fail_message"
    HOLD = "hold"
    UNCERTAIN = "uncertain"

    @property
    def kind(self) -> Kind:
        """The action in the words of a failure."""
        if self is Action.UNCERTAIN:
            return Kind.UNCERTAIN
        permanent = self in (Action.FAIL_RECIPIENT, Action.FAIL_MESSAGE, Action.HOLD)
        return Kind.PERMANENT if permanent else Kind.TEMPORARY


class Stage(StrEnum):
    """Where in the dialogue the reply came. FINAL is after the final dot."""

    CONNECT = "connect"
    GREETING = "greeting"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    FINAL = "final"
    QUIT = "quit"


class Severity(StrEnum):
    """What the codes alone say. A 4 in either code is temporary, whatever the other says."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What to do, about what, by which rule. After `tries` tries without success the action is `then`.

    `suppress`: the address is a candidate for suppression once the recipient has failed.
    """

    action: Action
    scope: Scope
    rule: str
    why: str
    retry_after_s: float | None = None
    alert: bool = False
    tries: int | None = None
    then: Action | None = None
    suppress: bool = False

    @property
    def kind(self) -> Kind:
        """Temporary, permanent or uncertain."""
        return self.action.kind


_LINE = re.compile(r"(?:^|(?<=[\s|]))([245]\d\d)-(?:[245]\.\d{1,3}\.\d{1,3}(?=\s))?", re.M)
_CODE = re.compile(
    r"(?:^\W{0,3}|[;:'\"(\[] {0,2}|\b(?:said|code|error|status|reply|response|returned|smtp|esmtp),? {1,2})"
    r"([245][0-7]\d)(?=$|[-\s,.:;)\]\"'#])(?!\.\d)",
    re.I,
)
_CODE_BEFORE_ENHANCED = re.compile(
    r"(?<![\d.])([245][0-7]\d)[-\s,\"'(#]{1,4}[245]\.[0-7]\.\d{1,3}(?![\d.]\d)"
)
_ENHANCED = re.compile(r"(?<![\d.])([245]\.[0-7]\.\d{1,3})(?!\d|\.\d)")
_NAME = re.compile(
    r"^\W{0,3}(?:[a-z_]{1,40}\.){0,5}([A-Z][A-Za-z]{2,80})(?=\W|$)|\(([A-Z][A-Za-z]{3,80})\) when calling"
)
_STAGE = re.compile(
    r"(?:in reply to|after)(?: the| pipelined)? (end of data|[a-z]{4,8})|refused to (talk) to me", re.I
)
_WORDS = re.compile(r"[^\W\d_]{2}")
_STAGES = {
    "connect": Stage.CONNECT,
    "initial": Stage.GREETING,
    "talk": Stage.GREETING,
    "ehlo": Stage.EHLO,
    "helo": Stage.EHLO,
    "starttls": Stage.STARTTLS,
    "auth": Stage.AUTH,
    "mail": Stage.MAIL,
    "rcpt": Stage.RCPT,
    "data": Stage.DATA,
    "end of data": Stage.FINAL,
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, or what stands for it. `name` is an exception's or an SDK error's name.

    `text` begins with the code where there is one: a log line around it is not the server's wording.
    `attempts` counts this one; `reused`: the connection had carried a message before.
    """

    text: str
    code: int | None = None
    enhanced: str | None = None
    stage: Stage | None = None
    name: str | None = None
    provider: str | None = None
    reused: bool = False
    attempts: int = 1

    @classmethod
    def parse(cls, text: str, *, stage: Stage | None = None) -> Reply:
        """The reply that a text holds; what is not found stays None."""
        text = readable(text[:READ]).strip()
        code = _CODE_BEFORE_ENHANCED.search(text) if not _starts_with_code(text) else None
        code = code or _CODE.search(text)
        body = (
            _LINE.sub(" ", text[code.start(1) :] if _WORDS.search(text, code.end(1)) else text)
            if code
            else text
        )
        enhanced = _ENHANCED.search(text, code.end(1) if code else 0) or _ENHANCED.search(text)
        return cls(
            text=body,
            code=int(code[1]) if code else None,
            enhanced=enhanced[1] if enhanced else None,
            stage=stage or _stage(text),
            name=_name(text),
        )

    @classmethod
    def received(cls, code: int, enhanced: str | None, text: str, *, stage: Stage | None) -> Reply:
        """What a server of ours said. Some write the enhanced code into the sentence, as in "(#5.1.1)"."""
        text = text[:READ]
        inside = None if enhanced else _ENHANCED.search(text)
        said = " ".join(part for part in (str(code), enhanced, text) if part)
        return cls(said, code, inside[1] if inside else enhanced, stage)

    @property
    def severity(self) -> Severity:
        """Temporary when either code says so: a 4.x.x in a 5xx reply, a 5.x.x in a 4xx reply."""
        digits = {str(self.code)[0] if self.code else "", self.enhanced[0] if self.enhanced else ""}
        if "4" in digits:
            return Severity.TEMPORARY
        return Severity.PERMANENT if "5" in digits else Severity.NONE


def _starts_with_code(text: str) -> bool:
    return text[:3].isdecimal() and not text[3:4].isalnum()


def _name(text: str) -> str | None:
    found = _NAME.search(text)
    name = (found[1] or found[2]) if found else None
    if name is None:
        return None
    humps = sum(letter.isupper() for letter in name)
    return name if 1 < humps < len(name) or name == "Throttling" else None


def _stage(text: str) -> Stage | None:
    found = _STAGE.search(text)
    return _STAGES.get((found[1] or found[2]).lower()) if found else None
