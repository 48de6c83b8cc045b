"""What a behaviour does: the stage of the transaction it acts at, and the action it takes there.

Plain actions say what happens now. The others depend on what came before; `memory` turns them into
plain ones. None, in the place of an action, is the ordinary course: the mail is accepted and kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from redrive.mailbox.replies import SimulatedReply


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
