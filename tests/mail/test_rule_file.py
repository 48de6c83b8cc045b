"""A user's file of rules: what it adds, what it changes, and what is said when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.core.errors import ConfigurationError
from redrive.core.failure import Scope
from redrive.mail.judging.replies import Action, Reply
from redrive.mail.judging.rule_file import default_table
from redrive.mail.judging.rules import Rules


def load(folder: Path, text: str) -> Rules:
    path = folder / "rules.toml"
    path.write_text(text, "utf-8")
    return Rules.load(path)


def test_a_new_rule_stands_before_all_others(tmp_path: Path) -> None:
    rules = load(
        tmp_path,
        """
        [rules.our-partner]
        codes = ["550"]
        says = ["come back on monday"]
        action = "retry"
        scope = "destination"
        why = "The partner's server sleeps on Sundays."
        retry_after_s = 3600
        """,
    )
    judgement = rules.judge(Reply.parse("550 User unknown. Come back on Monday!"))
    assert (judgement.rule, judgement.action, judgement.retry_after_s) == ("our-partner", Action.RETRY, 3_600)
    assert rules.judge(Reply.parse("550 User unknown")).rule == "unknown-user"


def test_a_known_id_changes_only_the_keys_it_names(tmp_path: Path) -> None:
    rules = load(tmp_path, '[rules.content]\naction = "hold"\nalert = true\n')
    judgement = rules.judge(Reply.parse("554 spam message rejected"))
    assert (judgement.action, judgement.scope, judgement.alert) == (Action.HOLD, Scope.MESSAGE, True)
    assert [rule.id for rule in rules.table.rules] == [rule.id for rule in default_table().rules]


def test_words_and_sets_are_added(tmp_path: Path) -> None:
    rules = load(tmp_path, '[sets]\npost = "kisten|kastl"\n[words.mailbox-full]\nbar = ["{post} ... voll"]\n')
    assert rules.judge(Reply.parse("550 s Kastl is scho wieda voll")).rule == "mailbox-full"
    assert rules.judge(Reply.parse("550 mailbox full")).rule == "mailbox-full"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", ["rules.toml", "not TOML"]),
        ("[rulez.x]", ["rulez", "not a section"]),
        ("rules = 3", ["rules is a section"]),
        ("[rules]\nx = 1", ["rule x is a section"]),
        ("[words]\nx = 1", ["words x is a section"]),
        ('[words.x]\nen = "a"', ["words x: en", "not a list"]),
        ("[sets]\nx = 1", ["set x", "not a text"]),
        ('[rules.x]\naction = "retry"', ["rule x", "missing"]),
        ('[rules.content]\nsay = ["a"]', ["rule content", "say is not a key"]),
        ('[rules.content]\naction = "again"', ["rule content: action", "again"]),
        ('[rules.content]\nstages = ["later"]', ["rule content: stages", "later"]),
        ('[rules.content]\ncodes = ["5*"]', ["rule content: codes", "5xx"]),
        ('[rules.content]\nenhanced = ["5.7"]', ["rule content: enhanced", "5.7.1"]),
        ('[rules.content]\nsays = ["@nothing"]', ["rule content: says", "nothing"]),
        ('[rules.content]\nsays = ["(a+)+$"]', ["rule content: says", "not a word"]),
        ('[rules.content]\nsays = ["..."]', ["rule content: says", "beginning"]),
        ('[rules.content]\nsays = ["a ... b ... c ... d"]', ["rule content: says", "gaps"]),
        ('[rules.content]\nsays = ["{nothing} a"]', ["rule content: says", "no set"]),
        ("[rules.content]\nalert = 1", ["rule content: alert", "neither true nor false"]),
        ("[rules.content]\ntries = 2", ["rule content", "belong together"]),
        ("[rules.content]\ntries = 0", ["rule content: tries", "above 0"]),
        ("[rules.content]\ntries = 1.5", ["rule content: tries", "whole"]),
        ("[rules.content]\nretry_after_s = inf", ["rule content: retry_after_s", "above 0"]),
    ],
)
def test_a_mistake_is_named_with_its_rule_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as error:
        load(tmp_path, text)
    assert all(word in str(error.value) for word in words), error.value


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.toml cannot be read"):
        Rules.load(tmp_path / "gone.toml")
