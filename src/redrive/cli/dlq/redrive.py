"""`redrive dlq redrive`, `discard` and `edit`: bring dead letters back, or take them out."""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated

from cyclopts import Parameter

from redrive.cli.dlq.choice import NO_CHOICE, Choice, selection
from redrive.cli.dlq.run import AS_USUAL, Going, order
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.office.operations import OperationKind, Order, Selection

_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?) ?%", re.ASCII)


async def redrive(
    *ids: str,
    choice: Choice = NO_CHOICE,
    canary: int | None = None,
    no_canary: bool = False,
    halt: str = "20%",
    halt_least: int = 5,
    to: str | None = None,
    include_expired: bool = False,
    going: Going = AS_USUAL,
    flags: Flags = NO_FLAGS,
) -> int:
    """Bring dead letters back to waiting: these ids, those of a filter or a queue, or all.

    Parameters
    ----------
    ids
        The letters.
    canary
        Send this many first, the rest once they did well; default 5 where there are more than 20 letters.
    no_canary
        Send all without trying some first.
    halt
        Stop when more than this share of the letters fail again; default 20%.
    halt_least
        Judge that share once this many outcomes are known; default 5. A canary is judged as a whole.
    to
        Into this queue instead of their own, as new messages.
    include_expired
        Also those whose own short time to live has passed, such as one-time codes.
    """
    share = _share(halt)
    if no_canary and canary:
        raise CommandError("--canary and --no-canary: give one of them", Exit.USAGE)
    async with session(flags) as current:
        wanted = Order(
            OperationKind.REDRIVE,
            await selection(current, ids, choice),
            rate=going.rate,
            canary=0 if no_canary else canary,
            halt_share=share,
            halt_least=halt_least,
            expired=include_expired,
            to_queue=None if to is None else await current.office.queues.target(to),
        )
        return await order(current, wanted, going)


async def discard(
    *ids: str, choice: Choice = NO_CHOICE, going: Going = AS_USUAL, flags: Flags = NO_FLAGS
) -> int:
    """Remove dead letters, with a row in the audit: these ids, those of a filter or a queue, or all.

    Parameters
    ----------
    ids
        The letters.
    """
    async with session(flags) as current:
        chosen = await selection(current, ids, choice)
        return await order(
            current, Order(OperationKind.DISCARD, chosen, rate=going.rate, expired=True), going
        )


async def undiscard(
    *ids: str, choice: Choice = NO_CHOICE, going: Going = AS_USUAL, flags: Flags = NO_FLAGS
) -> int:
    """Make discarded letters dead letters again while they are kept: these ids, those of a filter, or all.

    Parameters
    ----------
    ids
        The letters.
    """
    async with session(flags) as current:
        chosen = await selection(current, ids, choice)
        wanted = Order(OperationKind.UNDISCARD, chosen, rate=going.rate, expired=True)
        return await order(current, wanted, going)


async def edit(
    message_id: str,
    payload: Annotated[str, Parameter(name="JSON", allow_leading_hyphen=True)],
    /,
    *,
    to: str | None = None,
    flags: Flags = NO_FLAGS,
) -> int:
    """Re-drive one dead letter with another payload, as a new message; only where office.edit is true.

    Parameters
    ----------
    message_id
        The letter.
    payload
        The new payload as JSON; - reads it from standard input.
    to
        Into this queue instead of its own.
    """
    text = sys.stdin.read() if payload == "-" else payload
    try:
        json.loads(text)
    except ValueError as error:
        raise CommandError(
            f"the new payload is not JSON ({error}): nothing was changed", Exit.USAGE
        ) from None
    async with session(flags) as current:
        await current.office.messages.find(message_id)
        wanted = Order(
            OperationKind.REDRIVE,
            Selection(ids=(message_id,)),
            expired=True,
            edited=True,
            to_queue=None if to is None else await current.office.queues.target(to),
        )
        return await order(current, wanted, AS_USUAL, body=text.encode())


def _share(text: str) -> float:
    match = _SHARE.fullmatch(text.strip())
    if match is None or float(match[1]) > 100:
        raise CommandError(f"--halt is {text!r}: write a share such as 20%", Exit.USAGE)
    return float(match[1]) / 100
