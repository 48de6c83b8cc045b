"""Dead letters on the terminal: two lines each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import set_cell_size
from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.output import Output, clean, words
from redrive.cli.times import age
from redrive.core.letters import DeadLetter

_NAME_WIDTH = 14


def letter_lines(output: Output, letters: Sequence[DeadLetter], now: int) -> RenderableType:
    """Two lines a letter, so that an id is never cut and the reason has room."""
    if not letters:
        return Text("no dead letters")
    tenants, queues = (
        min(_NAME_WIDTH if not output.roomy else 40, max(map(len, column)))
        for column in (
            [clean(letter.message.tenant) for letter in letters],
            [clean(letter.message.queue) for letter in letters],
        )
    )
    lines: list[RenderableType] = []
    for letter in letters:
        message = letter.message
        lines.append(
            Text.assemble(
                (clean(message.id), "bold"),
                f"  {_cut(message.tenant, tenants)}  {_cut(message.queue, queues)}",
                (f"  {letter.reason:<11}", "red"),
                (f" {age(letter.died_at, now):>6}", "dim"),
                no_wrap=True,
                overflow="ellipsis",
            )
        )
        lines.append(_last_failure(letter))
    return Group(*lines)


def _last_failure(letter: DeadLetter) -> Text:
    last = letter.failures[-1] if letter.failures else None
    reason = last.reason if last else letter.reason.value
    attempts = f"attempt {last.attempt}" if last else "never tried"
    code = f" [{last.code}]" if last and last.code else ""
    times = f", re-driven {len(letter.redrives)}x" if letter.redrives else ""
    line = Text("    ", no_wrap=True, overflow="ellipsis")
    return line.append_text(words(f"{attempts}{times}: {reason}{code}"))


def _cut(text: str, width: int) -> str:
    plain = clean(text)
    return set_cell_size(plain, width) if len(plain) <= width else set_cell_size(plain, width - 1) + "…"
