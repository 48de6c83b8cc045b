"""What a queue takes: some queues have a form of their own, and no re-drive puts anything else into them.

The office knows no such queue itself; who wires it hands the rules in. They are asked before an operation
starts, and again for each letter that moves, because letters change in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redrive.core.letters import Account
from redrive.core.message import Message
from redrive.office.operations.operation import CHUNK, OperationError, Order

if TYPE_CHECKING:
    from redrive.core.ports import Ledger
    from redrive.office.index import Found

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BodyRule:
    """The form of one queue's bodies.

    `problem` says what is wrong with a body, given its parent's where it shares that one; None: it fits.
    `headers` are the headers of a message with this body, from those that its letter had.
    """

    problem: Callable[[bytes, bytes | None], str | None]
    headers: Callable[[bytes, Headers], dict[str, str]]


BodyRules = Mapping[str, BodyRule]


class WrongBody(OperationError):
    """A letter, or its edited payload, is not what the queue takes that it is to go to."""

    def __init__(self, letter_id: str, queue: str, problem: str) -> None:
        super().__init__(f"{letter_id} cannot go to {queue}: {problem}; nothing was started")


def problem_of(rules: BodyRules, target: str, account: Account, body: bytes | None) -> str | None:
    """Why a letter, with its new body if it has one, may not go to a queue; None: it may."""
    rule, message = rules.get(target), account.message
    if rule is None or (body is None and message.queue == target):
        return None
    return rule.problem(message.body if body is None else body, account.shared)


def headers_of(rules: BodyRules, target: str, old: Message, body: bytes) -> dict[str, str]:
    """The headers that a letter's new message begins with."""
    rule = rules.get(target)
    return dict(old.headers) if rule is None else rule.headers(body, old.headers)


async def check_bodies(
    store: Ledger, rules: BodyRules, order: Order, letters: Sequence[Found], body: bytes | None = None
) -> None:
    """WrongBody when one of these dead letters may not go where the order sends it."""
    for queue in dict.fromkeys(one.queue for one in letters):
        target = order.to_queue or queue
        if not order.replaces or target not in rules:
            continue
        ids = [one.id for one in letters if one.queue == queue]
        for begin in range(0, len(ids), CHUNK):
            for account in await store.accounts(queue, ids[begin : begin + CHUNK]):
                problem = problem_of(rules, target, account, body)
                if problem is not None:
                    raise WrongBody(account.message.id, target, problem)
