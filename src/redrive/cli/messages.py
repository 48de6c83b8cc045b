"""`redrive show`, `cancel` and `run-now` for one message by its id; `redrive messages` for lists of what
waits, runs, is done or was removed, and for removing a tenant's waiting messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import App, Parameter
from rich.text import Text

from redrive.cli.output import Length, command
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.letter import life, message_table
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.letters import Account, MessagePhase
from redrive.core.ports import PAGE
from redrive.office.documents.letters import ShownLetter, ShownMessage
from redrive.office.documents.messages import MovedMessage, RemovedMessages
from redrive.office.view import OfficeAnswer

messages = App(name="messages")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """How much of one message or letter is shown."""

    body: bool = False
    """Show the payload too, masked; --json always has it."""

    traceback: bool = False
    """Show the tracebacks of its failures too; --json always has them."""

    reveal: bool = False
    """Show the payload without masks; the audit records who did."""


BRIEFLY = Detail()


async def show(message_id: str, /, *, detail: Detail = BRIEFLY, flags: Flags = NO_FLAGS) -> None:
    """The life of one message: every attempt, delay and reason, and why it waits or died.

    Parameters
    ----------
    message_id
        The id that `send` or `dlq list` printed; of a dead letter its beginning, where no other begins so.
    """
    async with session(flags) as current:
        whole_id = await current.office.messages.whole_id(message_id)
        answer = await current.office.messages.show(whole_id, reveal=detail.reveal)
        answer_life(current, answer, detail)


def answer_life(
    current: Session,
    answer: OfficeAnswer[Account, ShownMessage] | OfficeAnswer[Account, ShownLetter],
    detail: Detail,
) -> None:
    """Print what one message or letter went through."""
    document, now = answer.document, current.store.now()
    payload = [document.original_data] if detail.body or detail.reveal else []
    current.output.answer(
        document,
        lambda: life(
            current.output, answer.found, document.why, now, payload=payload, traceback=detail.traceback
        ),
    )


async def cancel(message_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Remove a message that waits; it will not run.

    Parameters
    ----------
    message_id
        The message.
    """
    async with session(flags) as current:
        account = await current.office.messages.find(message_id)
        _answer(current, account, "cancel", await current.office.messages.cancel(account))


async def run_now(message_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Make a waiting message due now, whatever its delay.

    Parameters
    ----------
    message_id
        The message.
    """
    async with session(flags) as current:
        account = await current.office.messages.find(message_id)
        _answer(current, account, "run-now", await current.office.messages.run_now(account))


def _answer(current: Session, account: Account, verb: str, moved: bool) -> None:
    message_id = account.message.id
    if not moved:
        raise CommandError(
            f"{verb}: {message_id} does not wait (it was {account.state} a moment ago), nothing was changed: "
            f"see redrive show {message_id}",
            Exit.FAILED,
        )
    done = "removed" if verb == "cancel" else "due now"
    document = MovedMessage(job_id=message_id, queue=account.message.queue, verb=verb, result=done)
    current.output.answer(document, lambda: Text(f"{message_id} is {done}"))


@messages.command(name="list")
async def list_messages(
    *,
    state: MessagePhase = MessagePhase.WAITING,
    queue: str | None = None,
    tenant: str | None = None,
    older_than: Length = None,
    limit: int = 20,
    after: str | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Messages that wait, are scheduled, run, are done or were removed; dead ones are in dlq list.

    Parameters
    ----------
    state
        waiting (due now, the default), scheduled (due later), running, done or removed.
    queue
        Only those of this queue.
    tenant
        Only those of this tenant.
    older_than
        Only those accepted at least so long ago, such as 2h.
    limit
        How many at most, up to 500; default 20.
    after
        Continue from this cursor.
    """
    if not 1 <= limit <= PAGE:
        raise CommandError(f"--limit is {limit}: 1 to {PAGE}", Exit.USAGE)
    async with session(flags) as current:
        answer = await current.office.message_list.page(
            state,
            queue=queue,
            tenant=tenant,
            older_than_s=None if older_than is None else older_than.total_seconds(),
            after=after,
            limit=limit,
        )
        found, now = answer.found, current.store.now()
        current.output.answer(
            answer.document, lambda: message_table(current.output, found.messages, now, state)
        )
        if found.cursor is not None:
            given = {"--state": state.value, "--queue": queue, "--tenant": tenant}
            kept = [word for flag, value in given.items() if value is not None for word in (flag, value)]
            kept += [] if older_than is None else ["--older-than", f"{older_than.total_seconds():.0f}"]
            more = command("messages", "list", *kept, "--limit", limit, "--after", found.cursor)
            current.output.note(f"more: {more}")
        elif found.messages:
            current.output.note(f"read one: {command('show', found.messages[0].id)}")


@messages.command
async def remove(
    *,
    tenant: str,
    queue: str | None = None,
    dry_run: bool = False,
    yes: bool = False,
    flags: Flags = NO_FLAGS,
) -> int:
    """Remove a tenant's waiting messages, due or scheduled; dead letters and what runs stay.

    Parameters
    ----------
    tenant
        The tenant.
    queue
        Only in this queue; without, in every queue that the tenant has used.
    dry_run
        Only say how many there are.
    yes
        Do not ask.
    """
    async with session(flags) as current:
        lanes = await current.office.message_list.waiting(tenant, queue)
        waiting = sum(lane.waiting for lane in lanes)
        where = ", ".join(f"{lane.queue} {lane.waiting:,}" for lane in lanes) or "none"
        if dry_run:
            document = RemovedMessages(company_id=tenant, removed=0, waiting=waiting)
            current.output.answer(document, lambda: Text(f"{waiting:,} messages of {tenant} wait: {where}"))
            return Exit.OK
        question = f"remove {waiting:,} waiting messages of {tenant} for good ({where})"
        if waiting and not await current.output.confirm(question, yes=yes):
            return Exit.FAILED
        with current.output.progress(f"removing what waits of {tenant}", waiting) as progress:
            done = await current.office.message_list.remove(tenant, queue, most=waiting, progress=progress)
        document = RemovedMessages(company_id=tenant, removed=done.removed, waiting=done.waiting)
        left = f"; {done.waiting:,} came in meanwhile" if done.waiting else ""
        current.output.answer(document, lambda: Text(f"{done.removed:,} messages of {tenant} removed{left}"))
        return Exit.OK
