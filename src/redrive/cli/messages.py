"""`redrive show`, `cancel` and `run-now`: one message, by its id."""

from __future__ import annotations

from rich.text import Text

from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.letter import life
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.letters import Account
from redrive.core.redaction import redact
from redrive.office.wire import account_document


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
        Show the payload too, masked.
    traceback
        Show the tracebacks of its failures too.
    reveal
        Show the payload without masks; the audit records who did.
    """
    async with session(flags) as current:
        account = await current.find(message_id)
        why = await current.messages.why(account)
        (document,) = await current.shown([account_document(account)], reveal=reveal)
        body_shown = document.pop("originalData")
        payload = [body_shown] if body or reveal else []
        if payload:
            document["originalData"] = body_shown
        now = current.store.now()
        current.output.answer(
            document | {"why": why if reveal else redact(why)},
            lambda: life(current.output, account, why, now, payload=payload, traceback=traceback),
        )


async def cancel(message_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Remove a message that waits; it will not run.

    Parameters
    ----------
    message_id
        The message.
    """
    async with session(flags) as current:
        account = await _find(current, message_id)
        _answer(current, account, "cancel", await current.messages.cancel(account))


async def run_now(message_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Make a waiting message due now, whatever its delay.

    Parameters
    ----------
    message_id
        The message.
    """
    async with session(flags) as current:
        account = await _find(current, message_id)
        _answer(current, account, "run-now", await current.messages.run_now(account))


async def _find(current: Session, message_id: str) -> Account:
    return await current.messages.find(message_id)


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
