"""Which local part makes the mailbox do what: the actions, and one table from which the documentation is
generated.

A local part is read without its `+tag` and without regard to case; what no row matches is accepted like
`ok`. Only the `mail-` row is read from the sender, all others from the recipient. Where one mail has several
recipients, RCPT is answered for each; of what they ask after that, the first one's counts.

Plain actions say what happens now. The others depend on what came before; `memory` turns them into plain
ones. None, in the place of an action, is the ordinary course: the mail is accepted and kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from redrive.mailbox.replies import SimulatedReply, reply

_CODE = r"(?P<code>[45]\d\d)(?:-(?P<enhanced>[45]\.\d{1,3}\.\d{1,3}))?"
_DELAY = r"(?P<delay>\d{1,5})(?P<unit>ms|s|min)"
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}
_BYTES = {"": 1, "k": 1024, "m": 1024 * 1024}

Words = re.Match[str]


class Point(StrEnum):
    """Where in a transaction something happens; each is answered once. FINAL is after the final dot."""

    MAIL = "MAIL"
    RECIPIENT = "RCPT"
    DATA = "DATA"
    CONTENT = "content"
    FINAL = "final dot"


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse with a reply."""

    reply: SimulatedReply


@dataclass(frozen=True, slots=True)
class Raw:
    """Send bytes that are no reply at all."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection in place of an answer. `kept` says whether the mail stays with us."""

    kept: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer. `kept` as for Drop."""

    kept: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """Go on as usual, after a delay."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class FailFirst:
    """Refuse the first `times` tries of a mail."""

    times: int


@dataclass(frozen=True, slots=True)
class DropOnce:
    """Drop the first try of a mail, accept the next."""

    kept: bool


@dataclass(frozen=True, slots=True)
class Greylist:
    """Refuse until `delay_s` after the first try."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `count` within any `period_s`; `closing` answers what is above with 421."""

    count: int
    period_s: float
    closing: bool


@dataclass(frozen=True, slots=True)
class Largest:
    """Refuse content of more than `size_bytes`."""

    size_bytes: int


Plain = Refuse | Raw | Drop | Hang | Delay
Action = Plain | FailFirst | DropOnce | Greylist | Limit | Largest


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One action at one stage."""

    stage: Point
    action: Action


@dataclass(frozen=True, slots=True)
class Row:
    """One form of local part. `form` is how people read it, `example` is one that `pattern` matches."""

    form: str
    example: str
    pattern: str
    stage: Point
    make: Callable[[Words], Action | None]
    meaning: str


def _reply(words: Words) -> Action:
    enhanced = f"{words['enhanced']} " if words["enhanced"] else ""
    return Refuse(reply(int(words["code"]), f"{enhanced}simulated reply"))


def _long_reply(words: Words) -> Action:
    enhanced = f"{words['enhanced']} " if words["enhanced"] else ""
    lines = ("simulated reply", "of several lines", "and this is the last")
    return Refuse(reply(int(words["code"]), *(enhanced + line for line in lines)))


def _delay_s(words: Words) -> float:
    return int(words["delay"]) * _SECONDS[words["unit"]]


def _limit(words: Words) -> Action:
    return Limit(max(1, int(words["count"])), _SECONDS[words["unit"]], closing=words["closing"] is not None)


def _always(action: Action | None) -> Callable[[Words], Action | None]:
    return lambda words: action


_FULL = Refuse(reply(452, "4.2.2 mailbox full"))
_BEYOND_ASCII = Refuse(reply(550, "5.1.1 Empfänger unbekannt: 宛先不明 ✉"))
_GARBAGE = Raw(b"\xff\xfe?? not a reply ??\r\n")
_AT = Point.RECIPIENT
_DOT = Point.FINAL

ROWS: tuple[Row, ...] = (
    Row("ok", "ok", r"ok", _DOT, _always(None), "accepted and kept; so is every local part not listed here"),
    Row("reply-CODE", "reply-550-5.1.1", rf"reply-{_CODE}", _AT, _reply,
        "refused with that code, 4xx or 5xx, and the enhanced code if one is given; 421 closes"),
    Row("multiline-CODE", "multiline-550", rf"multiline-{_CODE}", _AT, _long_reply,
        "the same in a reply of three lines"),
    Row("data-CODE", "data-554-5.7.1", rf"data-{_CODE}", _DOT, _reply,
        "content taken, then refused with that code"),
    Row("mail-CODE", "mail-550-5.1.8", rf"mail-{_CODE}", Point.MAIL, _reply,
        "as the **sender**: refused with that code"),
    Row("full", "full", r"full", _AT, _always(_FULL), "452 4.2.2, mailbox full"),
    Row("utf8", "utf8", r"utf8", _AT, _always(_BEYOND_ASCII), "550 5.1.1 with text beyond ASCII"),
    Row("garbage", "garbage", r"garbage", _AT, _always(_GARBAGE), "a line that is no reply"),
    Row("toobig-SIZE", "toobig-1k", r"toobig-(?P<size>\d{1,6})(?P<unit>k|m|)", _DOT,
        lambda words: Largest(int(words["size"]) * _BYTES[words["unit"]]),
        "552 5.3.4 for content above that size in bytes, `k` or `m`"),
    Row("fail-N-then-ok", "fail-2-then-ok", r"fail-(?P<times>\d{1,4})-then-ok", _DOT,
        lambda words: FailFirst(int(words["times"])),
        "451 4.3.0 to the first N tries of a mail, told by its Message-ID, or by its sender without one"),
    Row("greylist-DELAY", "greylist-2s", rf"greylist-{_DELAY}", _AT,
        lambda words: Greylist(_delay_s(words)),
        "450 4.2.0 until that long after the sender's first try"),
    Row("rate-N-per-s", "rate-5-per-s", r"rate-(?P<count>\d{1,4})-per-(?P<unit>s|min)(?P<closing>-421)?", _AT,
        _limit,
        "451 4.7.0 above N in any second (`per-min`: minute); ending in `-421`: 421 and closed"),
    Row("slow-DELAY", "slow-3s", rf"slow-{_DELAY}", _AT, lambda words: Delay(_delay_s(words)),
        "accepted after that delay in `ms`, `s` or `min`"),
    Row("slow-after-dot-DELAY", "slow-after-dot-3s", rf"slow-after-dot-{_DELAY}", _DOT,
        lambda words: Delay(_delay_s(words)),
        "kept at once, the 250 after that delay"),
    Row("hang", "hang", r"hang", _AT, _always(Hang()), "never answered; closed after 15 minutes"),
    Row("hang-after-dot", "hang-after-dot", r"hang-after-dot", _DOT, _always(Hang(kept=True)),
        "kept, but never answered: the client cannot know"),
    Row("drop-before-data", "drop-before-data", r"drop-before-data", _AT, _always(Drop()),
        "connection closed in place of an answer"),
    Row("drop-at-data", "drop-at-data", r"drop-at-data", Point.DATA, _always(Drop()),
        "connection closed in place of the 354"),
    Row("drop-mid-data", "drop-mid-data", r"drop-mid-data", Point.CONTENT, _always(Drop()),
        "connection closed at the first bytes of the content; a client that had sent all of it cannot know"),
    Row("drop-after-dot", "drop-after-dot", r"drop-after-dot", _DOT, _always(DropOnce(kept=True)),
        "kept, but closed before the 250: the client cannot know. The next try of the same mail is "
        "accepted and recorded as a duplicate"),
    Row("drop-after-dot-lost", "drop-after-dot-lost", r"drop-after-dot-lost", _DOT,
        _always(DropOnce(kept=False)),
        "looks the same to the client, but is not kept. The next try is accepted"),
)  # fmt: skip

_PATTERNS = tuple((row, re.compile(row.pattern, re.ASCII)) for row in ROWS)
_FIRST_WORDS = frozenset(re.split(r"\W", row.example)[0] for row in ROWS)


def local_part(address: str) -> str:
    """What is left of the last @, in small letters and without a +tag."""
    return address.rpartition("@")[0].lower().partition("+")[0]


def behaviour(address: str) -> Behaviour | None:
    """What an address asks for; None is the ordinary course."""
    local = local_part(address)
    if local == "ok" or local.partition("-")[0] not in _FIRST_WORDS:
        return None
    return _matching(local)


@lru_cache(maxsize=1024)
def _matching(local: str) -> Behaviour | None:
    for row, pattern in _PATTERNS:
        words = pattern.fullmatch(local)
        if words is not None:
            action = row.make(words)
            return None if action is None else Behaviour(row.stage, action)
    return None


def markdown_table() -> str:
    """The table as it stands in docs/mailbox.md."""
    lines = ["| local part | example | at | what happens |", "|---|---|---|---|"]
    lines += [f"| `{row.form}` | `{row.example}@` | {row.stage} | {row.meaning} |" for row in ROWS]
    return "\n".join(lines)
