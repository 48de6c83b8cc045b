"""Stored text is attacker's text: no control sequence and no markup of it acts on a terminal."""

from __future__ import annotations

import json
import shlex

import pytest

from redrive.app import Redrive
from redrive.core.failure import Failure, Kind
from redrive.core.letters import DeadLetter
from redrive.core.lifecycle import State
from redrive.core.message import Message, Progress
from redrive.core.verdict import Reason
from redrive.engine.ids import new_id
from tests.cli.conftest import Shop

EVIL = "\x1b[2J\x1b]0;owned\x07[red]boom[/red] :bomb:\r\n\x9b31mforged line password=hunter2"
COMMANDS = [
    ("dlq", "list"),
    ("dlq", "redrive", "--all", "--dry-run"),
    ("status",),
    ("queue", "list"),
    ("show", "ID"),
    ("dlq", "show", "ID", "--body", "--traceback"),
    ("dlq", "groups"),
    ("dlq", "groups", "--by", "tenant"),
    ("dlq", "shape"),
    ("dlq", "sql", "SELECT * FROM dlq"),
    ("dlq", "export", "-", "--all"),
    ("tenant", "list"),
    ("audit",),
]


async def _bury(app: Redrive) -> str:
    """A letter as another system may hand it in: every text of it is hostile."""
    now = app.store.now()
    message = Message(
        new_id(), "q[bold]\x1b[31m", "t[red]\x1b[31m", f'"{EVIL}"'.encode(), now, 60.0, headers={"h": EVIL}
    )
    failure = Failure(now, 1, Kind.PERMANENT, EVIL, code="[red]\x1b[1m", traceback=EVIL)
    progress = Progress(State.DEAD, now, now + 60_000, attempts=1)
    await app.store.bury([DeadLetter(message, progress, Reason.PERMANENT, now, now, "f", (failure,))])
    return message.id


@pytest.mark.parametrize("arguments", COMMANDS)
def test_hostile_text_is_printed_as_text(shop: Shop, arguments: tuple[str, ...]) -> None:
    message_id = shop.with_app(_bury)
    result = shop(*(message_id if argument == "ID" else argument for argument in arguments))
    assert result.code == 0, result.error
    for character in "\x1b\x07\x9b\r":
        assert character not in result.out + result.error
    if arguments not in (("dlq", "groups", "--by", "tenant"), ("dlq", "shape"), ("audit",)):
        assert ("t[red]" if "redrive" in arguments else "q[bold]") in result.out
    if "show" in arguments:
        assert "[red]boom[/red] :bomb:" in result.out


def test_a_hostile_destination_is_printed_as_text(shop: Shop) -> None:
    to = json.dumps(["a@\x1b[2J[red]boom[/red]\r\nforged"])

    async def bury(app: Redrive) -> None:
        now = app.store.now()
        message = Message(new_id(), "email:send", "acme", f'{{"to": {to}}}'.encode(), now, 60.0)
        failure = Failure(now, 1, Kind.PERMANENT, "no", code="[bold]\x1b[1m")
        progress = Progress(State.DEAD, now, now + 60_000, attempts=1)
        await app.store.bury([DeadLetter(message, progress, Reason.PERMANENT, now, now, "f", (failure,))])

    shop.with_app(bury)
    result = shop("mail", "destinations")
    assert "[red]boom[/red]" in result.out
    assert "[bold]" in result.out
    assert len(result.out.splitlines()) == 2
    assert not any(character in result.out + result.error for character in "\x1b\r")


def test_a_reason_cannot_forge_a_line_and_is_redacted(shop: Shop) -> None:
    shop.bury(EVIL)
    lines = shop("dlq", "list").out.splitlines()
    assert len(lines) == 2
    assert "forged line" in lines[1]
    assert "hunter2" not in lines[1]


def test_json_carries_the_reason_whole_and_escaped(shop: Shop) -> None:
    shop.bury(EVIL)
    result = shop("dlq", "list", "--json", "--reveal")
    assert result.out.isascii()
    assert "\x1b" not in result.out
    assert result.document["letters"][0]["lastFailureReason"] == EVIL


@pytest.mark.parametrize("arguments", [("list",), ("groups",), ("shape",), ("redrive", "--all", "--dry-run")])
def test_a_suggested_command_runs_nothing_but_ours(shop: Shop, arguments: tuple[str, ...]) -> None:
    evil = "x; touch owned $(touch owned) `touch owned` '"

    async def bury(app: Redrive) -> None:
        now = app.store.now()
        message = Message(evil, "orders", evil, b"1", now, 60.0)
        progress = Progress(State.DEAD, now, now + 60_000, attempts=1)
        await app.store.bury([DeadLetter(message, progress, Reason.PERMANENT, now, now, evil)])

    shop.with_app(bury)
    result = shop("dlq", *arguments)
    lines = (result.out + result.error).splitlines()
    commands = [line[line.index("redrive ") :] for line in lines if ": redrive" in line]
    assert commands
    for one in commands:
        named = [word for word in shlex.split(one.partition("; by cause")[0]) if "touch" in word]
        assert all(evil in word for word in named)


def test_an_error_does_not_repeat_all_of_a_long_argument(shop: Shop) -> None:
    shop.send()
    result = shop("show", "a" * 100_000)
    assert (result.code, len(result.error) < 3_000) == (4, True)


def test_an_error_does_not_repeat_control_sequences(shop: Shop) -> None:
    shop.send()
    for arguments in (("show", EVIL), ("queue", "pause", EVIL), ("send", EVIL, "1"), (EVIL,)):
        result = shop(*arguments)
        assert result.code in (2, 4)
        assert "\x1b" not in result.error
        assert "hunter2" not in result.error
