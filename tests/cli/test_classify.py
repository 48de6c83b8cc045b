"""`redrive mail classify`: one answer a reply, with the rule and the reason, quick from a pipe."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.conftest import Result, Shop
from tests.cli.processes import COMMAND, ENVIRONMENT, on_terminal

FIELDS = {"reply", "action", "scope", "kind", "rule", "why", "retry", "retryAfter"}
RULES = """
[rules.ours]
codes = ["550"]
says = ["come back"]
action = "retry"
scope = "destination"
why = "Ours comes back."
"""


def _piped(shop: Shop, text: bytes, *flags: str) -> Result:
    ended = subprocess.run(
        [*COMMAND, "mail", "classify", *flags],
        cwd=shop.folder,
        env=ENVIRONMENT,
        input=text,
        capture_output=True,
        check=False,
    )
    return Result(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def test_a_reply_is_judged_with_rule_and_reason(shop: Shop) -> None:
    document = shop.ok("mail", "classify", "550 5.1.1 user unknown")
    assert document.keys() == FIELDS
    assert (document["action"], document["kind"], document["retry"]) == ("fail_recipient", "permanent", False)
    shown = shop("mail", "classify", "550 5.1.1 user unknown").out
    for part in ("fail_recipient: permanent", "recipient", document["rule"], document["why"]):
        assert part in shown


def test_a_pipe_gives_one_answer_a_line_in_order(shop: Shop) -> None:
    replies = ["450 4.2.0 greylisted", "550 5.1.1 user unknown", "", "\xe9trange \u2028 reply"]
    result = _piped(shop, "\n".join(replies).encode() + b"\r\n\xff\xfe broken\n", "--json")
    assert (result.code, result.error) == (0, "")
    answers = [json.loads(line) for line in result.out.splitlines()]
    assert [one["reply"] for one in answers] == [*replies, "\ufffd\ufffd broken"]
    assert [one["retry"] for one in answers] == [True, False, True, True, True]
    assert all(one.keys() == FIELDS for one in answers)


def test_hundreds_of_lines_are_answered_as_text_too(shop: Shop) -> None:
    result = _piped(shop, b"550 5.7.1 blocked \x1b[2J using a list\n" * 500, "-")
    assert result.code == 0
    assert len(result.out.splitlines()) == 500
    assert "\x1b" not in result.out


def test_the_stage_counts(shop: Shop) -> None:
    login = shop.ok("mail", "classify", "535 refused", "--stage", "auth")
    assert login["action"] == "hold"
    assert shop("mail", "classify", "550 no", "--stage", "lunch").code == 2


@pytest.mark.parametrize("by", ["flag", "setting"])
def test_a_users_rules_come_first(shop: Shop, by: str) -> None:
    (shop.folder / "rules.toml").write_text(RULES)
    if by == "setting":
        (shop.folder / "redrive.toml").write_text('mail_rules = "rules.toml"\n')
    flags = ("--rules", "rules.toml") if by == "flag" else ()
    assert shop.ok("mail", "classify", "550 come back", *flags)["rule"] == "ours"


def test_broken_rules_are_a_usage_error(shop: Shop) -> None:
    (shop.folder / "rules.toml").write_text('[rules.ours]\ncodes = ["550"]\n')
    for file in ("rules.toml", "gone.toml"):
        result = shop("mail", "classify", "550 x", "--rules", file)
        assert (result.code, "Traceback" in result.error) == (2, False)


def test_a_terminal_is_asked_for_a_reply(shop: Shop) -> None:
    code, shown = on_terminal(shop.folder, "mail", "classify", until="", answer="")
    assert code == 2
    assert "give a reply" in shown
