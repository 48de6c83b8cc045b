"""One mail on the terminal and as JSON: its recipients, each with its state and attempts.

The names are those of `GET /v1/emails/{id}`. Recipients are shown whole: whoever may read the store asks.
"""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import name, words
from redrive.cli.times import duration, moment
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.mail.desk import MailStatus, Recipient, RecipientState
from redrive.office.wire import instant

_STYLES = {
    RecipientState.SENT: "green",
    RecipientState.RETRYING: "yellow",
    RecipientState.FAILED: "red",
    RecipientState.UNCERTAIN: "red",
}


def mail_document(status: MailStatus) -> dict[str, Any]:
    """The mail for --json."""
    message, progress = status.account.message, status.account.progress
    return {
        "id": message.id,
        "companyId": message.tenant,
        "submittedAt": instant(message.enqueued_at),
        "expiresAt": instant(progress.expires_at),
        "recipients": [_recipient_document(one) for one in status.recipients],
    }


def mail_page(status: MailStatus, now: int) -> RenderableType:
    """The mail for people."""
    message = status.account.message
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(Text("id", "dim"), name(message.id))
    grid.add_row(Text("tenant", "dim"), name(message.tenant))
    grid.add_row(Text("accepted", "dim"), moment(message.enqueued_at))
    return Group(grid, Text(), *(_recipient_lines(one, now) for one in status.recipients))


def _recipient_document(recipient: Recipient) -> dict[str, Any]:
    account = recipient.account
    waits = account is not None and account.state is State.WAITING
    return {
        "address": recipient.address,
        "status": recipient.state.value,
        "attempts": [] if account is None else _attempts(account),
        "nextAttemptAt": instant(account.progress.due_at) if account is not None and waits else None,
        "jobId": None if account is None else account.message.id,
    }


def _attempts(account: Account) -> list[dict[str, Any]]:
    attempts: list[dict[str, Any]] = [
        {
            "attempt": failure.attempt,
            "timestamp": instant(failure.at),
            "result": failure.kind.value,
            "code": failure.code,
            "reason": failure.reason,
        }
        for failure in account.failures
    ]
    if account.state is State.DONE:
        sent = {"attempt": account.progress.attempts, "timestamp": instant(account.finished_at)}
        attempts.append(sent | {"result": "sent", "code": None, "reason": None})
    return attempts


def _recipient_lines(recipient: Recipient, now: int) -> RenderableType:
    """A line for the recipient, and one for each failed attempt below it."""
    account = recipient.account
    state = (f"{recipient.state.value:<10}", _STYLES.get(recipient.state, ""))
    lines = [Text.assemble(state, name(recipient.address), (_when(account, now), "dim"))]
    for failure in account.failures if account is not None else ():
        line = Text(f"{'':10}attempt {failure.attempt} {failure.kind}: ", no_wrap=True, overflow="ellipsis")
        lines.append(line.append_text(words(failure.reason)))
    return Group(*lines)


def _when(account: Account | None, now: int) -> str:
    if account is None:
        return ""
    if account.state is State.DONE:
        return f"  on attempt {account.progress.attempts}"
    if account.state is State.WAITING and account.progress.due_at > now:
        return f"  again in {duration(account.progress.due_at - now)}"
    return ""
