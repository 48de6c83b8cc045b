"""How far an operation is, for people: what was moved, what came of it, how fast, how much longer."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.core.letters import OperationTally
from redrive.office.operations.operation import Operation, OperationKind, OperationState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An operation with its numbers at one instant.

    `handled` of the frozen list: `moved`, or `skipped` because another had moved them. Of the re-driven ones
    `passed` or `failed` their first attempt; `done`, `dead` again or `removed` in the end; `outstanding` are
    those whose end is not known. `speed`: letters a second so far, None while it stands. `left_s`: seconds
    left, None when that cannot be told. `unattended`: it runs, and no process conducts it.
    """

    operation: Operation
    handled: int
    moved: int
    skipped: int
    passed: int
    failed: int
    done: int
    dead: int
    removed: int
    outstanding: int
    speed: float | None
    left_s: float | None
    unattended: bool = False

    @property
    def settled(self) -> bool:
        """It has ended, and what came of each letter is known."""
        return self.operation.state.ended and self.outstanding == 0


def snapshot(operation: Operation, tally: OperationTally, now: int, *, unattended: bool = False) -> Snapshot:
    """The numbers of an operation."""
    redrives = operation.order.kind is OperationKind.REDRIVE and not operation.order.replaces
    known = tally.done + tally.dead + tally.removed
    speed = _speed(operation, now)
    return Snapshot(
        operation,
        handled=operation.position,
        moved=tally.moved,
        skipped=max(0, operation.position - tally.moved),
        passed=tally.passed,
        failed=tally.failed,
        done=tally.done,
        dead=tally.dead,
        removed=tally.removed,
        outstanding=max(0, tally.moved - known) if redrives else 0,
        speed=speed,
        left_s=_left_s(operation, speed),
        unattended=unattended,
    )


def _speed(operation: Operation, now: int) -> float | None:
    stands = not (operation.state.runs or operation.state.ended)
    if stands or operation.moving_at is None or operation.position == 0:
        return None
    took_ms = (operation.ended_at or now) - operation.moving_at
    return None if took_ms <= 0 else 1000 * operation.position / took_ms


def _left_s(operation: Operation, speed: float | None) -> float | None:
    if operation.state.ended:
        return 0.0
    if operation.state is not OperationState.MOVING:
        return None
    by_rate_s = operation.order.lasts_s(operation.left)
    if by_rate_s is not None:
        return by_rate_s
    return None if not speed else operation.left / speed
