"""`redrive show`, `cancel` and `run-now`: one message, by its id."""

from __future__ import annotations

from rich.text import Text

from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.letter import life
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.letters import Account


async def show(
    message_id: str,
    /,
    *,
    body: bool = False,
    traceback: bool = False,
    reveal: bool = False,
    flags: Flags = NO_FLAGS,
) -> None:
    """The life of one message: every attempt, delay and reason, and why it waits or died.

    Parameters
    ----------
    message_id
        The id that `send` or `dlq list` printed; of a dead letter its beginning, where no other begins so.
    body
        Show the payload too, masked; --json always has it.
    traceback
        Show the tracebacks of its failures too.
    reveal
        Show the payload without masks; the audit records who did.
    """
    async with session(flags) as current:
        whole_id = await current.office.messages.whole_id(message_id)
        answer = await current.office.messages.show(whole_id, reveal=reveal)
        document, now = answer.document, current.store.now()
        payload = [document.original_data] if body or reveal else []
        current.output.answer(
            document,
            lambda: life(
                current.output, answer.found, document.why, now, payload=payload, traceback=traceback
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
    document = {"jobId": message_id, "queue": account.message.queue, "verb": verb, "result": done}
    current.output.answer(document, lambda: Text(f"{message_id} is {done}"))
