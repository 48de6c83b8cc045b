"""The store as a few dictionaries: slow, simple and obviously right.

It shares no code with the stores; the state machine drives both and compares. Instants are only compared
with a slack, because real milliseconds pass while a test runs: every delay, lease and time to live of the
machine lies well away from the steps in which it moves the clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from redrive.core.lanes import LaneState
from redrive.core.letters import DeadLetter, LetterKey
from redrive.core.lifecycle import Move, State
from redrive.core.message import Entry, Lapse, Message
from redrive.core.ports import Receipt, Status
from redrive.core.store import QueueCounts
from redrive.core.verdict import Bury, Complete, HoldLane, Release, RetryAt, Verdict
from tests.conformance.lane_model import LaneModel

SLACK_MS = 15_000


@dataclass(slots=True)
class Item:
    """One message: what was accepted, and how far it is."""

    entry: Entry
    due_at: int
    expires_at: int
    state: State = State.WAITING
    attempts: int = 0
    crashes: int = 0
    generation: int = 0
    token: str | None = None
    until_at: int = 0
    counted: bool = False
    reclaimed: bool = False
    removed_by: Move | None = None
    operation: str | None = None
    judged: bool = False

    @property
    def queue(self) -> str:
        return self.entry.message.queue

    @property
    def tenant(self) -> str:
        return self.entry.message.tenant


@dataclass(slots=True)
class Model:
    """Everything the store must agree with. `now` is set by the machine before each step."""

    dedupe_ms: int
    now: int = 0
    items: dict[str, Item] = field(default_factory=dict)
    lanes: defaultdict[tuple[str, str], LaneModel] = field(default_factory=lambda: defaultdict(LaneModel))
    queues: dict[str, LaneState] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], tuple[str, int | None]] = field(default_factory=dict)
    tallies: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def passed(self, at: int) -> bool:
        return at <= self.now + SLACK_MS

    def append(self, entry: Entry) -> Receipt:
        message = entry.message
        if message.id in self.items:
            first = self.items[message.id]
            differs = _difference(first.entry.message, message)
            status = Status.ACCEPTED if differs is None else Status.CONFLICT
            return Receipt(message.id, first.state, status, differs)
        if message.dedupe is not None:
            key = (message.queue, message.tenant, message.dedupe)
            first_id, ends_at = self.keys.get(key, (message.id, 0))
            if ends_at is None or not self.passed(ends_at):
                first = self.items[first_id]
                same = first.entry.message.body == message.body
                return Receipt(first_id, first.state, Status.DUPLICATE if same else Status.CONFLICT)
            self.keys[key] = (message.id, None)
        self.items[message.id] = Item(entry, entry.due_at, entry.expires_at)
        self.touch(message.queue, message.tenant)
        return Receipt(message.id, State.WAITING, Status.ACCEPTED)

    def touch(self, queue: str, tenant: str) -> LaneModel:
        self.queues.setdefault(queue, LaneState.RUNNING)
        return self.lanes[queue, tenant]

    def of(self, queue: str, state: State) -> list[Item]:
        return [item for item in self.items.values() if item.queue == queue and item.state is state]

    def room(self, queue: str, tenant: str) -> int:
        in_flight = sum(item.tenant == tenant for item in self.of(queue, State.CLAIMED))
        return self.lanes[queue, tenant].room(in_flight, self.now + SLACK_MS)

    def runnable(self, queue: str, *, suspects: bool = False) -> list[Item]:
        """What a claim may hand out now, as far as caps allow."""
        if self.queues.get(queue) is not LaneState.RUNNING:
            return []
        return [
            item
            for item in self.of(queue, State.WAITING)
            if (item.crashes > 0) is suspects and self.passed(item.due_at) and self.may_run(item)
        ]

    def may_run(self, item: Item) -> bool:
        """Whether its lane lets it; a suspect of a held lane only where nothing else can be the probe."""
        lane = self.lanes[item.queue, item.tenant]
        if self.room(item.queue, item.tenant) == 0:
            return False
        if lane.probe_at is None or item.crashes == 0:
            return lane.state is LaneState.RUNNING or (
                lane.probe_at is not None and self.passed(lane.probe_at)
            )
        waiting = [one for one in self.of(item.queue, State.WAITING) if one.tenant == item.tenant]
        return self.passed(lane.probe_at) and all(one.crashes > 0 for one in waiting)

    def hand_out(self, message_id: str, token: str, until_at: int) -> None:
        item = self.items[message_id]
        item.state, item.token, item.until_at, item.counted = State.CLAIMED, token, until_at, True
        item.reclaimed = False
        item.attempts += 1
        self.lanes[item.queue, item.tenant].serve(self.now, self.now + SLACK_MS)

    def lapsed(self, queue: str) -> dict[str, Lapse]:
        """What reclaim must take over now. What no worker had cannot have been lost by one."""
        lost = [item for item in self.of(queue, State.CLAIMED) if self.passed(item.until_at)]
        expired = [item for item in self.of(queue, State.WAITING) if self.passed(item.expires_at)]
        expired += [item for item in lost if not item.counted]
        lapses = {item.entry.message.id: Lapse.LOST for item in lost}
        return lapses | {item.entry.message.id: Lapse.EXPIRED for item in expired}

    def take_over(self, message_id: str, token: str, until_at: int) -> None:
        item = self.items[message_id]
        item.counted = item.counted and item.state is State.CLAIMED
        item.state, item.token, item.until_at, item.reclaimed = State.CLAIMED, token, until_at, True

    def holds(self, message_id: str, token: str) -> bool:
        item = self.items[message_id]
        return item.state is State.CLAIMED and item.token == token

    def held_by(self, token: str) -> set[str]:
        return {message_id for message_id in self.items if self.holds(message_id, token)}

    def settle(self, message_id: str, token: str, verdict: Verdict) -> bool:
        """Apply a verdict; False when it is refused."""
        if not self.holds(message_id, token):
            return False
        item = self.items[message_id]
        lane = self.lanes[item.queue, item.tenant]
        item.token = None
        match verdict:
            case Complete():
                item.state = State.DONE
                self.judge(item, "passed")
                self.count(item.operation, done=1)
                lane.complete(parent=bool(self.children(item.entry.message.id)))
                lane.end_hold()
                self.end_key(item, self.now + self.dedupe_ms)
            case RetryAt(due_at=due_at):
                item.state, item.due_at, item.crashes = State.WAITING, due_at, 0
                self.judge(item, "failed")
                lane.end_hold()
            case Release(due_at=due_at, failure=failure):
                item.state, item.due_at = State.WAITING, due_at
                item.attempts -= 1
                item.crashes += failure is not None
            case Bury():
                item.state = State.DEAD
                self.judge(item, "failed")
                self.count(item.operation, dead=1)
                if not item.reclaimed:
                    lane.end_hold()
            case HoldLane(probe_at=probe_at, reason=reason):
                item.state, item.due_at = State.WAITING, self.now
                item.attempts -= 1
                lane.hold(probe_at, reason)
        return True

    def judge(self, item: Item, verdict: str) -> None:
        """Only the first attempt that is settled after a re-drive is judged."""
        if not item.judged:
            item.judged = True
            self.count(item.operation, **{verdict: 1})

    def count(self, operation: str | None, **counts: int) -> None:
        if operation is not None:
            self.tallies[operation].update(counts)

    def end_key(self, item: Item, ends_at: int) -> None:
        message = item.entry.message
        key = (message.queue, message.tenant, message.dedupe or "")
        if self.keys.get(key, ("", 0))[0] == message.id:
            self.keys[key] = (message.id, ends_at)

    def move(self, queue: str, letters: list[LetterKey], before: State) -> list[Item]:
        """The items that a compare-and-set from `before` moves."""
        known = {one.id: self.items[one.id] for one in letters if self._is(one)}
        return [item for item in known.values() if item.queue == queue and item.state is before]

    def _is(self, letter: LetterKey) -> bool:
        item = self.items.get(letter.id)
        return item is not None and letter.generation in (None, item.generation)

    def children(self, message_id: str) -> list[Item]:
        return [item for item in self.items.values() if item.entry.message.parent == message_id]

    def keeps_body(self, message_id: str) -> bool:
        """Whether a message is here and has its body: not finished, or needed by an open child."""
        item = self.items.get(message_id)
        return item is not None and (
            not _finished(item) or not all(_finished(child) for child in self.children(message_id))
        )

    def remove(self, item: Item, move: Move) -> None:
        if item.state is State.WAITING:
            self.count(item.operation, removed=1)
        item.state, item.removed_by = State.REMOVED, move
        self.end_key(item, 0)

    def restores(self, letter: DeadLetter) -> bool:
        """Whether taking in a letter brings back one that was archived, and not after a later death."""
        item = self.items[letter.message.id]
        return item.removed_by is Move.ARCHIVE and item.generation <= letter.progress.generation

    def restore(self, letter: DeadLetter) -> None:
        item, message = self.items[letter.message.id], letter.message
        item.state, item.removed_by = State.DEAD, None
        key = (message.queue, message.tenant, message.dedupe or "")
        ends_at = self.keys.get(key, ("", 0))[1]
        if message.dedupe is not None and ends_at is not None and self.passed(ends_at):
            self.keys[key] = (message.id, None)

    def redrive(self, item: Item, operation: str | None = None) -> None:
        item.state, item.due_at, item.operation, item.judged = State.WAITING, self.now, operation, False
        self.count(operation, moved=1)
        item.expires_at = self.now + round(item.entry.message.ttl_s * 1000)
        item.attempts, item.crashes, item.generation = 0, 0, item.generation + 1

    def counts(self, queue: str) -> QueueCounts:
        waiting = self.of(queue, State.WAITING)
        later = [item for item in waiting if not self.passed(item.due_at)]
        return QueueCounts(
            queue=queue,
            state=self.queues[queue],
            pending=len(waiting) - len(later),
            scheduled=sum(item.attempts == 0 for item in later),
            retry_scheduled=sum(item.attempts > 0 for item in later),
            processing=len(self.of(queue, State.CLAIMED)),
            published=sum(lane.done for (name, _), lane in self.lanes.items() if name == queue),
            dlq=len(self.of(queue, State.DEAD)),
            suspects=sum(item.crashes > 0 for item in waiting),
            oldest_due_at=min((item.due_at for item in waiting), default=None),
        )


def _finished(item: Item) -> bool:
    discarded = item.removed_by in (Move.DISCARD, Move.REPLACE)
    return item.state is State.DONE or (item.state is State.REMOVED and not discarded)


def _difference(first: Message, other: Message) -> str | None:
    if first.tenant != other.tenant:
        return "tenant"
    if first.track != other.track:
        return "track"
    if first.dedupe != other.dedupe:
        return "dedupe key"
    if first.parent != other.parent:
        return "parent"
    return None if (first.body, first.headers) == (other.body, other.headers) else "content"
