"""`redrive mail classify`: what the gateway would do about a reply, by which rule, and why.

One answer a reply, in order; from standard input a reply is a line, and with --json so is its answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.output import Output, clean, name
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags
from redrive.cli.times import duration
from redrive.core.failure import Kind
from redrive.mail.judging.replies import Judgement, Reply, Stage
from redrive.mail.judging.rules import Rules

_STYLES = {Kind.TEMPORARY: "yellow", Kind.PERMANENT: "red", Kind.UNCERTAIN: "cyan"}


def classify(
    reply: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    stage: Stage | None = None,
    rules: Path | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """What would be done about a mail server's reply, by which rule, and why.

    Parameters
    ----------
    reply
        The reply, such as "550 5.7.1 …"; without one, or with -, each line of standard input is one.
    stage
        Where in the dialogue it came; without it, what the reply itself tells counts.
    rules
        A TOML file laid over our rules; without it, the one that the setting `mail_rules` names.
    """
    chosen = rules or flags.settings().mail_rules
    table = Rules.default() if chosen is None else Rules.load(chosen)
    output = Output(flags.json)
    if reply is not None and reply != "-":
        judged = table.judge(Reply.parse(reply, stage=stage))
        output.answer(_document(reply, judged), lambda: _page(judged))
        return
    for line in _lines():
        judged = table.judge(Reply.parse(line, stage=stage))
        output.answer(_document(line, judged), partial(_row, line, judged))


def _lines() -> Iterator[str]:
    if sys.stdin.isatty():
        raise CommandError('give a reply, as in "550 5.7.1 …", or pipe in one a line', Exit.USAGE)
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def _document(reply: str, judged: Judgement) -> dict[str, Any]:
    return {
        "reply": reply,
        "action": judged.action.value,
        "scope": judged.scope.value,
        "kind": judged.kind.value,
        "rule": judged.rule,
        "why": judged.why,
        "retry": judged.kind is not Kind.PERMANENT,
        "retryAfter": judged.retry_after_s,
    }


def _page(judged: Judgement) -> RenderableType:
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


def _row(reply: str, judged: Judgement) -> RenderableType:
    cells = f"  {judged.scope:<11}  {judged.rule:<24}  "
    return Text.assemble(
        (f"{judged.action:<15}  {judged.kind:<9}", _STYLES[judged.kind]),
        cells,
        (clean(reply), "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _action(judged: Judgement) -> Text:
    wait = f", after {duration(round(judged.retry_after_s * 1000))}" if judged.retry_after_s else ""
    return Text(f"{judged.action}: {judged.kind}{wait}", _STYLES[judged.kind])
