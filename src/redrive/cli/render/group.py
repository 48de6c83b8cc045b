"""Groups of dead letters as lines: count, standing, trend, and a failure to know it by."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, age, clean, moment, name, words
from redrive.office.groups import Group, GroupBy, GroupState
from redrive.office.groups.said import Said

_QUEUES_SHOWN = 3
_BARS = "▁▂▃▄▅▆▇█"
_STYLES = {GroupState.OPEN: "red", GroupState.IGNORED: "yellow", GroupState.RESOLVED: "green"}


def group_lines(output: Output, found: Sequence[Group], now: int) -> RenderableType:
    """Two lines a group: its numbers, and the failure of its newest letter."""
    if not found:
        return Text("no dead letters")
    width = max(len(f"{one.counts.count:,}") for one in found)
    keys = max(len(_key(one)) for one in found)
    lines: list[RenderableType] = []
    for one in found:
        lines += [_numbers(output, one, width, min(keys, 40), now), _failure(one, width)]
    return Lines(*lines)


def said_page(output: Output, found: Group | None, said: Said, now: int) -> RenderableType:
    """A group, how it stands, and its notes."""
    lines: list[RenderableType] = []
    lines.append(Text("it has no letters now") if found is None else group_lines(output, [found], now))
    if said.at:
        ends = [f"{said.until_count:,} letters"] if said.until_count is not None else []
        ends += [moment(said.until_at)] if said.until_at is not None else []
        until = f" until {' or '.join(ends)}" if ends else ""
        lines.append(name(f"{said.state}{until}, said {said.actor} {moment(said.at)}"))
    if found is not None and found.standing.reopened:
        lines.append(name(f"open again: {found.standing.reopened}", "yellow"))
    lines += [name(f"{moment(one.at)} {one.actor}: {one.text}") for one in said.notes]
    return Lines(*lines)


def sparkline(counts: Sequence[int]) -> str:
    """Counts as bars of eight heights; what is zero is a dot."""
    most = max(counts, default=0)
    return "".join(_BARS[(count * 8 - 1) // most] if count else "·" for count in counts)


def _trend(output: Output, counts: Sequence[int]) -> Sequence[int]:
    """Where there is little room, three parts of the time become one."""
    return counts if output.roomy else [sum(counts[at : at + 3]) for at in range(0, len(counts), 3)]


def _numbers(output: Output, one: Group, width: int, keys: int, now: int) -> Text:
    counts, state = one.counts, one.standing.state
    tenants = "" if counts.by is GroupBy.TENANT else f"{counts.tenants:,} tenant{'s'[: counts.tenants != 1]}"
    return Text.assemble(
        (f"{counts.count:>{width},}", "bold"),
        f"  {_key(one):<{keys}}  ",
        (f"{state:<8}", _STYLES[state]),
        (f"  {tenants:<11}", ""),
        (f"  {age(counts.first_died_at, now):>6} to {age(counts.last_died_at, now):>6} ago", "dim"),
        (f"  {sparkline(_trend(output, counts.trend))}", "cyan"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _failure(one: Group, width: int) -> Text:
    sample = one.counts.sample
    code = f" [{sample.code}]" if sample.code else ""
    said = ["(open again)"] if one.standing.reopened else []
    said += [f"— {note.text}" for note in one.standing.said.notes[-1:]]
    line = Text(" " * (width + 2), no_wrap=True, overflow="ellipsis")
    line.append_text(words(f"{_queues(one)} {sample.reason}: {sample.failure}{code}"))
    return line.append(" ").append_text(words(" ".join(said), "yellow")) if said else line


def _queues(one: Group) -> str:
    """The queues of a group, that of its newest letter first."""
    newest = one.counts.sample.queue
    names = [newest, *(name for name in one.counts.queues if name != newest)]
    more = f" and {len(names) - _QUEUES_SHOWN} more queues" if len(names) > _QUEUES_SHOWN else ""
    return ", ".join(names[:_QUEUES_SHOWN]) + more


def _key(one: Group) -> str:
    return clean(one.counts.key) or "(none)"
