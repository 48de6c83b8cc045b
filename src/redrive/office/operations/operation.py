"""What an operation is: what was asked, what was frozen, and how far it is. One record holds it all.

Nothing here asks the store. The record is written compare-and-set (`records.py`), so whatever a process read
is either still true when it writes, or it reads again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from redrive.core.errors import ConfigurationError, RedriveError
from redrive.core.letters import OperationTally
from redrive.core.limits import Rate
from redrive.core.message import check_queue, check_tenant
from redrive.core.redaction import MASKED
from redrive.office.audit import Actor
from redrive.office.view import NotFound

CHUNK = 500
NAMED_LETTERS = 10_000
SHOWN_IDS = 20
MANY = 20
USUAL_CANARY = 5
USUAL_RATE = "20/s"
NO_RATE = "none"


class OperationError(RedriveError):
    """An operation cannot be found, or cannot do what was asked of it now."""


class NoOperation(OperationError, NotFound):
    """There is no operation of this id, or it is not the caller's to see."""

    def __init__(self, operation_id: str) -> None:
        self.operation_id = operation_id
        super().__init__(f"no operation {operation_id!r}: redrive ops list shows those there are")


class MaskedBody(OperationError):
    """A new payload in which masks stand: it was read masked, and would overwrite what they hide."""

    def __init__(self) -> None:
        super().__init__(f"holds {MASKED}, a mask: read the letter with its payload revealed first")


class OperationKind(StrEnum):
    """What an operation does with each of its letters."""

    REDRIVE = "redrive"
    DISCARD = "discard"
    UNDISCARD = "undiscard"
    EXPORT = "export"
    ARCHIVE = "archive"
    RESTORE = "restore"


class OperationState(StrEnum):
    """How far an operation is. In CANARY some letters are out and their outcome is waited for."""

    FREEZING = "freezing"
    CANARY = "canary"
    MOVING = "moving"
    PAUSED = "paused"
    HALTED = "halted"
    CANCELLED = "cancelled"
    FINISHED = "finished"
    FAILED = "failed"

    @property
    def runs(self) -> bool:
        """Whether a conductor has something to do for it."""
        return self in (OperationState.FREEZING, OperationState.CANARY, OperationState.MOVING)

    @property
    def ended(self) -> bool:
        return self in (OperationState.CANCELLED, OperationState.FINISHED, OperationState.FAILED)


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    """What is stored: JSON in camelCase."""


class Selection(_Document, frozen=True):
    """Which letters: these ids, or those that a filter finds (an empty one: all), the oldest `limit` of them.

    `scope` is the tenant that the caller is bound to; nothing of another is ever chosen. `generation`
    says which death of the named letters is meant; None is whichever there is. `as_of` and `counted` come
    from a preview: what died (or was discarded, where that is undone) after that instant is not meant, and
    no more are taken than were counted.
    """

    ids: tuple[str, ...] = ()
    generation: int | None = None
    filter: str = ""
    scope: str | None = None
    limit: int | None = None
    as_of: int | None = None
    counted: int | None = None

    def __post_init__(self) -> None:
        if self.ids and (self.filter or self.limit is not None):
            raise OperationError("say which letters by ids, or by a filter and a limit: not by both")
        if len(self.ids) > NAMED_LETTERS:
            raise OperationError(
                f"{len(self.ids):,} ids in one operation: at most {NAMED_LETTERS:,}; use a filter"
            )
        if self.limit is not None and self.limit < 1:
            raise OperationError(f"limit is {self.limit}: at least 1")
        if min(self.as_of or 0, self.counted or 0) < 0:
            raise OperationError("the instant and count of a preview are 0 or more: pass them as given")
        if self.scope is not None:
            check_tenant(self.scope)


class Order(_Document, frozen=True):
    """What was asked for.

    `canary` letters go first, and their first attempts are waited for; with `ramp` ever larger parts follow,
    each waited for. `rate` is NO_RATE for as fast as it goes. Where canary and rate are None, a re-drive of
    more than MANY letters gets the usual ones. Past `halt_share` of failures among `halt_least` or more that
    came back, it halts.
    `expired` takes letters whose own short time to live has passed too. `edited`: a new body is kept for it.
    `file` is what an export writes, as `form` and with payloads masked unless `reveal`, what a restore reads,
    and the folder that an archive goes to.
    """

    kind: OperationKind
    selection: Selection = Selection()
    rate: str | None = None
    canary: int | None = None
    ramp: bool = False
    halt_share: float = 0.2
    halt_least: int = 5
    expired: bool = False
    to_queue: str | None = None
    edited: bool = False
    file: str | None = None
    form: str = "jsonl"
    reveal: bool = False

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate != NO_RATE:
            Rate.parse(self.rate)
        if self.rate is not None and self.kind is OperationKind.ARCHIVE:
            raise ConfigurationError("an archive is written as fast as it goes: leave the rate out")
        if self.to_queue is not None:
            check_queue(self.to_queue)
        canary: object = 0 if self.canary is None else self.canary
        if not isinstance(canary, int) or not 0 <= canary <= CHUNK:
            raise ConfigurationError(f"canary is {canary!r}: 0 to {CHUNK} letters")
        if not 0 <= self.halt_share <= 1 or self.halt_least < 1:
            raise ConfigurationError("halt: a share from 0 to 1, of at least 1 letter that came back")
        judged = self.canary or self.ramp or self.to_queue is not None or self.edited
        if judged and self.kind is not OperationKind.REDRIVE:
            raise ConfigurationError(f"canary, ramp, queue and edit go with a re-drive, not with {self.kind}")

    def settled(self, count: int) -> Order:
        """The same for so many letters, with what nobody said decided: of many, some are tried first."""
        if self.kind is not OperationKind.REDRIVE:
            return self
        canary, rate = (USUAL_CANARY, USUAL_RATE) if count > MANY else (0, NO_RATE)
        return replace(
            self,
            canary=canary if self.canary is None else self.canary,
            rate=rate if self.rate is None else self.rate,
        )

    def as_previewed(self, as_of: int, counted: int) -> Order:
        """The same of the letters that a preview counted, and no others."""
        return replace(self, selection=replace(self.selection, as_of=as_of, counted=counted))

    def without_ids(self) -> Order:
        """The same once the letters are frozen: of many ids a few stay to be shown; records stay small."""
        few = replace(self.selection, ids=self.selection.ids[:SHOWN_IDS])
        return replace(self, selection=few)

    def asked(self) -> dict[str, Any]:
        """As the audit keeps it: what was asked for, and of very many ids the first; all are in the list."""
        few = replace(self.selection, ids=self.selection.ids[:CHUNK])
        cut = {"named": len(self.selection.ids)} if len(self.selection.ids) > CHUNK else {}
        rest = _chosen(replace(self, selection=Selection()), Order(self.kind))
        return {"kind": self.kind.value, **_chosen(few, Selection()), **cut, **rest}

    @property
    def replaces(self) -> bool:
        """Whether a new message takes each letter's place."""
        return self.to_queue is not None or self.edited

    @property
    def writes(self) -> bool:
        """Whether its file is one that it makes."""
        return self.kind is OperationKind.EXPORT

    @property
    def uses_file(self) -> bool:
        """Whether it belongs to the machine where its file lies."""
        return self.kind in (OperationKind.EXPORT, OperationKind.ARCHIVE, OperationKind.RESTORE)

    @property
    def counts_itself(self) -> bool:
        """Whether the store knows nothing of how many letters it has handled."""
        return self.kind in (OperationKind.EXPORT, OperationKind.RESTORE)

    @property
    def pace(self) -> Rate | None:
        return None if self.rate is None or self.rate == NO_RATE else Rate.parse(self.rate)

    def lasts_s(self, count: int) -> float | None:
        """How long so many letters take at its rate; None where none is set."""
        return None if self.pace is None else count * self.pace.period_s / self.pace.count


def _chosen(given: _Document, usual: _Document) -> dict[str, Any]:
    """The fields that are not as usual."""
    usually = msgspec.to_builtins(usual)
    fields: dict[str, Any] = msgspec.to_builtins(given)
    return {name: value for name, value in fields.items() if value != usually[name]}


class Frozen(_Document, frozen=True):
    """The frozen list so far: its letters and chunks, its running hash, and where freezing goes on.

    Baseline and left out: `expired` (own time to live passed), `gone` (not dead any more), `missing`.
    """

    total: int = 0
    chunks: int = 0
    hash: str = ""
    cursor: str | None = None
    expired: int = 0
    gone: int = 0
    missing: int = 0


class Baseline(_Document, frozen=True):
    """The store's tally when people last said "go on": what was before it is not judged again."""

    moved: int = 0
    passed: int = 0
    failed: int = 0
    removed: int = 0

    @classmethod
    def of(cls, tally: OperationTally) -> Baseline:
        return cls(tally.moved, tally.passed, tally.failed, tally.removed)


class Operation(_Document, frozen=True):
    """One bulk action from start to end.

    `position`: letters of the frozen list that were handled; the next is number `offset` of chunk `chunk`.
    `gate`: so many letters must have been judged, counted from `since`, before more are moved. `next_at`:
    when the rate lets the next one go. `was`: the state that a resume goes back to; `resumed_at`: when one
    last did. `row`: the position of
    its last row in the audit; `told`: that was the outcome. Of files: the `host` that has it, how many bytes
    are `written`, how many letters `counted`, and the archives that were made (`files`).
    """

    id: str
    order: Order
    actor: str
    origin: str
    created_at: int
    row: int
    state: OperationState = OperationState.FREEZING
    why: str = ""
    frozen: Frozen = Frozen()
    position: int = 0
    chunk: int = 0
    offset: int = 0
    gate: int | None = None
    since: Baseline = Baseline()
    next_at: int = 0
    moving_at: int | None = None
    was: OperationState | None = None
    resumed_at: int | None = None
    ended_at: int | None = None
    told: bool = False
    host: str = ""
    written: int = 0
    counted: int = 0
    files: tuple[str, ...] = ()

    @property
    def by(self) -> Actor:
        return Actor(self.actor, self.origin)

    @property
    def left(self) -> int:
        """Letters of the frozen list that were not handled yet."""
        return self.frozen.total - self.position

    def document(self) -> dict[str, Any]:
        """As it is stored."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built


def read_operation(document: Any) -> Operation:
    """From what is stored."""
    return msgspec.convert(document, Operation)
