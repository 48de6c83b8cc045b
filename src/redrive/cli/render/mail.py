"""One mail on the terminal: its recipients, each with its state and attempts; and a judged reply."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import clean, duration, moment, name
from redrive.core.failure import Kind
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.mail.desk import MailStatus, RecipientState
from redrive.mail.documents import MailDocument, RecipientDocument
from redrive.mail.judging.replies import Judgement

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


def mail_page(status: MailStatus, shown: MailDocument, now: int) -> RenderableType:
    """The mail for people: as its document shows it, with what was edited and when it goes on."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(Text("id", "dim"), name(shown.id))
    if status.current is not status.account:
        grid.add_row(Text("edited as", "dim"), name(status.current.message.id))
    grid.add_row(Text("tenant", "dim"), name(shown.company_id))
    grid.add_row(Text("accepted", "dim"), moment(status.account.message.enqueued_at))
    pairs = zip(shown.recipients, status.recipients, strict=True)
    return Group(grid, Text(), *(_recipient_lines(one, found.account, now) for one, found in pairs))


def _recipient_lines(shown: RecipientDocument, account: Account | None, now: int) -> RenderableType:
    """A line for the recipient, and one for each failed attempt below it."""
    state = (f"{shown.status.value:<10}", _STYLES[shown.status])
    lines = [Text.assemble(state, name(shown.address), (_when(account, now), "dim"))]
    for attempt in shown.attempts:
        if attempt.reason is not None:
            head = f"{'':10}attempt {attempt.attempt} {attempt.result}: "
            lines.append(Text(head, no_wrap=True, overflow="ellipsis").append_text(name(attempt.reason)))
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
