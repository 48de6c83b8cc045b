"""`redrive dlq`: see dead letters, bring them back, discard them; one, some or all."""

from __future__ import annotations

from cyclopts import App

from redrive.cli.letters import letter_lines, preview
from redrive.cli.life import life
from redrive.cli.moving import move, selection
from redrive.cli.problems import CommandError, Exit, no_message
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.lifecycle import State
from redrive.core.ports import PAGE
from redrive.office.letters import Progress, Selection, Tally, as_letter
from redrive.office.wire import letter_document

dlq = App(name="dlq", help="List, show, re-drive and discard dead letters.")


@dlq.command(name="list")
async def list_letters(
    *, queue: str | None = None, limit: int = 20, after: str | None = None, flags: Flags = NO_FLAGS
) -> None:
    """Dead letters, oldest first.

    Parameters
    ----------
    queue
        Only those of this queue.
    limit
        How many at most, up to 500; 20 unless told.
    after
        Go on from this cursor.
    """
    if not 1 <= limit <= PAGE:
        raise CommandError(f"--limit is {limit}: 1 to {PAGE}", Exit.USAGE)
    async with session(flags) as current:
        only = None if queue is None else await current.known_queue(queue)
        found, cursor = await current.letters.page(only, after, limit)
        document = {"letters": [letter_document(letter) for letter in found], "cursor": cursor}
        now = current.store.now()
        current.output.answer(document, lambda: letter_lines(current.output, found, now))
        if cursor is not None:
            current.output.note(f"more: redrive dlq list --after {cursor}")


@dlq.command
async def show(
    message_id: str, /, *, body: bool = False, traceback: bool = False, flags: Flags = NO_FLAGS
) -> None:
    """One dead letter with everything that led there.

    Parameters
    ----------
    message_id
        The letter.
    body
        Show the payload too; --json always has it.
    traceback
        Show the tracebacks of its failures too; --json always has them.
    """
    async with session(flags) as current:
        account = await current.messages.find(message_id)
        if account is None:
            raise no_message(message_id)
        if account.state is not State.DEAD:
            raise CommandError(
                f"{message_id} is {account.state}, not a dead letter: see redrive show {message_id}",
                Exit.NOT_FOUND,
            )
        why, now = await current.messages.why(account), current.store.now()
        current.output.answer(
            letter_document(as_letter(account)),
            lambda: life(current.output, account, why, now, body=body, traceback=traceback),
        )


@dlq.command
async def redrive(
    *ids: str,
    queue: str | None = None,
    all: bool = False,  # noqa: A002 - the flag's name
    limit: int | None = None,
    include_expired: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    flags: Flags = NO_FLAGS,
) -> int:
    """Bring dead letters back to waiting: these ids, those of a queue, or all.

    Parameters
    ----------
    ids
        The letters.
    queue
        Those of this queue.
    all
        Those of every queue.
    limit
        At most so many, oldest first.
    include_expired
        Also those whose own short time to live has passed, such as one-time codes.
    dry_run
        Only say what would happen.
    yes
        Do not ask.
    """

    async def act(current: Session, chosen: Selection, progress: Progress) -> Tally:
        return await current.letters.redrive(chosen, stale=include_expired, progress=progress)

    async with session(flags) as current:
        chosen = await selection(current, ids, queue, all, limit)
        found = await preview(current, chosen, stale=include_expired)
        return await move(current, "redrive", chosen, found, act, dry_run, yes)


@dlq.command
async def discard(
    *ids: str,
    queue: str | None = None,
    all: bool = False,  # noqa: A002 - the flag's name
    limit: int | None = None,
    dry_run: bool = False,
    yes: bool = False,
    flags: Flags = NO_FLAGS,
) -> int:
    """Take dead letters out of the queue of the dead: these ids, those of a queue, or all.

    Parameters
    ----------
    ids
        The letters.
    queue
        Those of this queue.
    all
        Those of every queue.
    limit
        At most so many, oldest first.
    dry_run
        Only say what would happen.
    yes
        Do not ask.
    """

    async def act(current: Session, chosen: Selection, progress: Progress) -> Tally:
        return await current.letters.discard(chosen, progress=progress)

    async with session(flags) as current:
        chosen = await selection(current, ids, queue, all, limit)
        found = await preview(current, chosen, stale=True)
        return await move(current, "discard", chosen, found, act, dry_run, yes)
