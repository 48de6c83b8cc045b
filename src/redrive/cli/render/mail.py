"""One mail on the terminal and as JSON: its recipients, each with its state and attempts; and a judged reply.

The names are those of `GET /v1/emails/{id}`. Recipients are shown whole: whoever may read the store asks.
"""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import clean, name, words
from redrive.cli.times import duration, moment
from redrive.core.failure import Kind
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.mail.desk import MailStatus, Recipient, RecipientState
from redrive.mail.judging.replies import Judgement
from redrive.office.documents.document import instant

_STYLES = {
    RecipientState.QUEUED: "",
    RecipientState.SENDING: "",
    RecipientState.SENT: "green",
    RecipientState.RETRYING: "yellow",
    RecipientState.FAILED: "red",
    RecipientState.UNCERTAIN: "red",
    RecipientState.REMOVED: "yellow",
}
_KIND_STYLES = {
    Kind.TEMPORARY: "yellow",
    Kind.PERMANENT: "red",
    Kind.UNCERTAIN: "cyan",
    Kind.EXPIRED: "red",
    Kind.LOST: "yellow",
}


def mail_document(status: MailStatus) -> dict[str, Any]:
    """The mail for --json."""
    message, progress = status.account.message, status.current.progress
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
    if status.current is not status.account:
        grid.add_row(Text("edited as", "dim"), name(status.current.message.id))
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
    state = (f"{recipient.state.value:<10}", _STYLES[recipient.state])
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


def judgement_page(judged: Judgement) -> RenderableType:
    """What would be done about a reply, and why."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("action", _action(judged))
    grid.add_row("about", judged.scope.value)
    grid.add_row("rule", name(judged.rule))
    grid.add_row("why", name(judged.why))
    if judged.tries is not None and judged.then is not None:
        grid.add_row("then", f"{judged.then} after {judged.tries} tries")
    return grid


def judgement_line(reply: str, judged: Judgement) -> RenderableType:
    """The same in one line, for many."""
    cells = f"  {judged.scope:<11}  {judged.rule:<24}  "
    return Text.assemble(
        (f"{judged.action:<15}  {judged.kind:<9}", _KIND_STYLES[judged.kind]),
        cells,
        (clean(reply), "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _action(judged: Judgement) -> Text:
    wait = f", after {duration(round(judged.retry_after_s * 1000))}" if judged.retry_after_s else ""
    return Text(f"{judged.action}: {judged.kind}{wait}", _KIND_STYLES[judged.kind])
