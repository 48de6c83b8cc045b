"""`redrive alerts`: what fires and who was told, the rules, silences, and a test of a channel."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Group, RenderableType
from rich.text import Text

from redrive.cli.output import Length, Output, clean, command, name, words
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.office.documents.alerts import AlertList, AlertRuleDocument, SilenceDocument

alerts = App(name="alerts")
_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


@alerts.command(name="list")
async def list_alerts(
    *, every: Annotated[bool, Parameter(name="--all")] = False, flags: Flags = NO_FLAGS
) -> None:
    """What fires and since when, what is silenced, and how the channels do.

    Parameters
    ----------
    every
        What cleared within the last week too.
    """
    async with session(flags) as current:
        found = await current.office.alerts.list(every=every)
        current.output.answer(found, lambda: _page(current.output, found))
        for one in found.channels:
            if one.problem is not None:
                current.output.note(f"try it: {command('alerts', 'test', one.name)}")
        if found.more:
            current.output.note(f"and {found.more:,} more")
        if found.alerts:
            current.output.note("what to do: redrive docs runbook")


@alerts.command
async def rules(*, flags: Flags = NO_FLAGS) -> None:
    """Every rule as it holds: what it watches, when it fires, and when it clears."""
    async with session(flags) as current:
        found = current.office.alerts.rules()
        current.output.answer(found, lambda: _rules(current.output, found.rules))


@alerts.command(name="test")
async def try_channel(channel: str, /, *, flags: Flags = NO_FLAGS) -> int:
    """Send a test through a channel, and say whether it was taken.

    Parameters
    ----------
    channel
        The NAME of [channels.NAME].
    """
    async with session(flags) as current:
        outcome = await current.office.alerts.test(channel)
        said = "took the test" if outcome.taken else f"did not take the test: {outcome.problem}"
        current.output.answer(
            outcome, lambda: words(f"{channel} {said}", "" if outcome.taken else "bold red")
        )
        return Exit.OK if outcome.taken else Exit.FAILED


@alerts.command
async def silence(
    alert: str | None = None,
    /,
    *,
    length: Annotated[Length, Parameter(name="--for")] = None,
    subject: str | None = None,
    every: Annotated[bool, Parameter(name="--all")] = False,
    why: str = "",
    flags: Flags = NO_FLAGS,
) -> None:
    """Tell nothing of an alert for a while; what cleared is told, and what still fires afterwards is too.

    Parameters
    ----------
    alert
        The alert; without one, --all.
    length
        For how long: 30m, 2h, 1d; at most 30 days.
    subject
        Only of this queue, tenant or group, as `alerts list` shows it.
    every
        Tell nothing of any alert.
    why
        A few words for whoever comes next.
    """
    if length is None:
        raise CommandError("for how long? add --for, such as --for 2h", Exit.USAGE)
    if (alert is None) != every:
        raise CommandError(
            "which alert? name one that `redrive alerts rules` lists, or give --all", Exit.USAGE
        )
    async with session(flags) as current:
        made = await current.office.alerts.silence(alert, subject, length, why)
        current.output.answer(made, lambda: Text(_silence_line(made)))
        current.output.note(f"end it: {command('alerts', 'unsilence', made.id)}")


@alerts.command
async def unsilence(silence_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """End a silence now.

    Parameters
    ----------
    silence_id
        The id that `alerts list` shows.
    """
    async with session(flags) as current:
        ended = await current.office.alerts.unsilence(silence_id)
        current.output.answer(ended, lambda: Text(f"{ended.id} has ended"))


def _page(output: Output, found: AlertList) -> RenderableType:
    table = output.table("state", "severity", "alert", "since", "what", words=("what",))
    for one in found.alerts:
        state = "silenced" if one.silenced and one.state == "firing" else one.state
        told = f" (not yet taken by {', '.join(one.waiting_for)})" if one.waiting_for else ""
        severity = Text(one.severity, _STYLES[one.severity])
        since = name((one.cleared_at or one.since)[:19].replace("T", " "))
        table.add_row(Text(state), severity, name(one.alert), since, words(f"{one.text}{told}"))
    parts: list[RenderableType] = [table if found.alerts else Text("nothing fires")]
    parts += [Text(_silence_line(one)) for one in found.silences]
    if found.channels:
        parts += [Text(), _channels(output, found)]
    return Group(*parts)


def _channels(output: Output, found: AlertList) -> RenderableType:
    table = output.table("channel", "kind", "last sent", "problem", words=("problem",))
    for one in found.channels:
        problem = f"{one.problem} ({one.attempts} tries)" if one.problem is not None else one.note or ""
        table.add_row(
            name(one.name), name(one.kind), name((one.last_sent_at or "never")[:19]), words(problem)
        )
    return table


def _rules(output: Output, found: list[AlertRuleDocument]) -> RenderableType:
    numbers = ("above", "clear", "window", "least")
    table = output.table("alert", "metric", "scope", *numbers, "severity", numbers=numbers)
    for one in found:
        values = (f"{one.above:g}", f"{one.clear:g}", f"{one.window_s:g}", f"{one.least}")
        severity = "off" if one.off else one.severity
        metric = f"{one.metric}, unusual" if one.unusual else one.metric
        table.add_row(name(one.name), name(metric), name(one.scope), *values, name(severity))
    return table


def _silence_line(one: SilenceDocument) -> str:
    about = one.alert or "every alert"
    subject = f" of {one.subject}" if one.subject is not None else ""
    why = f": {one.why}" if one.why else ""
    until = one.until[:16].replace("T", " ")
    return clean(f"{one.id}: {about}{subject} is silent until {until}Z, says {one.actor}{why}")
