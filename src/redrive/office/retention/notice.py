"""The notice that letters of a queue will leave: when, how many, why, where to, and what left last.

One record a queue, written by the one process that has the duty and read by everyone: `status` and the pages
show what was decided and count nothing themselves.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from shlex import quote

from redrive.core.errors import VersionConflict
from redrive.core.records import Record
from redrive.core.store import Records
from redrive.core.values import instant
from redrive.office.records import every_record

RETENTION_RECORDS = "retention"


@dataclass(frozen=True, slots=True)
class Notice:
    """What is announced for a queue. Letters leave at `leave_at`: `aged` for age, `excess` for number.

    `shared` letters have to stay, since what they share is missing. `problem` says why nothing can
    leave. `left` letters went to `left_to` at `left_at`, the last time.
    """

    queue: str
    leave_at: int
    aged: int = 0
    excess: int = 0
    shared: int = 0
    folder: str | None = None
    problem: str = ""
    left: int = 0
    left_at: int | None = None
    left_to: str | None = None

    @property
    def leaving(self) -> int:
        """How many letters are announced."""
        return self.aged + self.excess

    def sentences(self) -> list[str]:
        """The notice as people read it; nothing when nothing is to be said."""
        said = []
        if self.leaving and self.problem:
            said.append(
                f"{_letters(self.leaving)} of {self.queue} should leave {_cause(self)} and cannot: "
                f"{self.problem}"
            )
        elif self.leaving:
            said.append(
                f"{_letters(self.leaving)} of {self.queue} {_verb(self.leaving, 'leave')} {_cause(self)} "
                f"on {_moment(self.leave_at)} to {self.folder}"
            )
        if self.shared:
            said.append(
                f"{_letters(self.shared)} of {self.queue} {_verb(self.shared, 'stay')} beyond that: "
                "what they share with other messages is missing in the store"
            )
        if self.left and self.left_at is not None:
            said.append(
                f"{_letters(self.left)} of {self.queue} left on {_moment(self.left_at)}: "
                f"redrive dlq restore {quote(self.left_to or 'FILE')}"
            )
        return said


async def notices(store: Records) -> list[Notice]:
    """What is announced, of every queue."""
    return [_notice(record) async for record in every_record(store, RETENTION_RECORDS)]


async def read_notice(store: Records, queue: str) -> tuple[Notice | None, int]:
    """What is announced of one queue, and the version that `write_notice` must expect."""
    record = await store.get_record(RETENTION_RECORDS, queue)
    return (None, 0) if record is None else (_notice(record), record.version)


async def write_notice(store: Records, notice: Notice, version: int) -> bool:
    """Announce in place of what was read; False when someone else has announced since."""
    try:
        await store.put_record(RETENTION_RECORDS, notice.queue, asdict(notice), expected=version)
    except VersionConflict:
        return False
    return True


def _notice(record: Record) -> Notice:
    return Notice(**record.document)


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count:,} letters"


def _verb(count: int, word: str) -> str:
    return f"{word}s" if count == 1 else word


def _cause(notice: Notice) -> str:
    causes = [f"{notice.aged:,} for age"] if notice.aged else []
    causes += [f"{notice.excess:,} for number"] if notice.excess else []
    if len(causes) == 1:
        return "for age" if notice.aged else "for number"
    return f"({' and '.join(causes)})"


def _moment(at: int) -> str:
    return f"{(instant(at) or '')[:16].replace('T', ' ')} UTC"
