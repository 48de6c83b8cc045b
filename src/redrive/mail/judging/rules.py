"""What is done about a reply: the first rule that fits, in the table's order.

The table is data in `table/`: stage and exception, the provider's own tokens, final wording, wording that
overrides the code, enhanced code, basic code, first digit, no code at all. A user's file adds rules
before all of ours, or changes ours by their id. This module never looks at a clock, a message or a queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from redrive.mail.judging.replies import Judgement, Reply
from redrive.mail.judging.rule import Rule
from redrive.mail.judging.rule_file import Table, default_table, read_file
from redrive.mail.judging.waits import asked_wait_s
from redrive.mail.judging.wording import Vocabulary


class Rules:
    """A table of rules, ready to judge. Made once, used from anywhere."""

    def __init__(self, table: Table) -> None:
        self.table = table
        lists = dict(table.words)
        for rule in table.rules:
            for key, phrases in rule.worded().items():
                own = tuple(phrase for phrase in phrases if not phrase.startswith("@"))
                lists[_own_list(rule.id, key)] = own
        self._vocabulary = Vocabulary(lists)
        self._wanted = [
            (rule, {key: _names(rule.id, key, said) for key, said in rule.worded().items()})
            for rule in table.rules
        ]

    @classmethod
    def default(cls) -> Rules:
        """The table as it ships."""
        return _default()

    @classmethod
    def load(cls, path: Path) -> Rules:
        """The table with a user's file laid over it, or ConfigurationError naming rule and key."""
        return cls(read_file(path, default_table()))

    def judge(self, reply: Reply) -> Judgement:
        """The judgement by the first rule that fits; the last one fits everything."""
        said = self._vocabulary.said(reply.text)
        for rule, wanted in self._wanted:
            if rule.fits(reply) and _worded(wanted, said):
                return _judgement(rule, reply)
        raise LookupError("no rule fits: the table's last rule must have no condition")


@cache
def _default() -> Rules:
    return Rules(default_table())


def _own_list(rule_id: str, key: str) -> str:
    return f"{rule_id}.{key}"


def _names(rule_id: str, key: str, phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(phrase[1:] if phrase.startswith("@") else _own_list(rule_id, key) for phrase in phrases)


def _worded(wanted: Mapping[str, frozenset[str]], said: frozenset[str]) -> bool:
    return all((key == "unless") == said.isdisjoint(names) for key, names in wanted.items())


def _judgement(rule: Rule, reply: Reply) -> Judgement:
    if rule.then is not None and rule.tries is not None and reply.attempts >= rule.tries:
        why = f"{rule.why} (tried {reply.attempts} times)"
        return Judgement(rule.then, rule.scope, rule.id, why, alert=rule.alert, suppress=rule.suppress)
    wait_s = asked_wait_s(reply.text) if rule.action.value.startswith("retry") else None
    return Judgement(
        rule.action,
        rule.scope,
        rule.id,
        rule.why,
        retry_after_s=rule.retry_after_s if wait_s is None else wait_s,
        alert=rule.alert,
        tries=rule.tries,
        then=rule.then,
        suppress=rule.suppress,
    )


def markdown_table() -> str:
    """The table as it stands in docs/mail-errors.md: each rule in the order in which they are asked."""
    lines = ["| rule | when | then | about | why |", "|---|---|---|---|---|"]
    for rule in default_table().rules:
        lines.append(f"| `{rule.id}` | {_when(rule)} | {_then(rule)} | {rule.scope} | {rule.why} |")
    return "\n".join(lines)


def _when(rule: Rule) -> str:
    parts = [
        f"{name} {', '.join(values)}"
        for name, values in (
            ("at", rule.stages),
            ("error", rule.names),
            ("from", rule.providers),
            ("code", rule.codes),
            ("enhanced", rule.enhanced),
            ("is", rule.severity),
        )
        if values
    ]
    parts += ["on a reused connection"] if rule.reused else []
    parts += [f"{key} {_wording(phrases)}" for key, phrases in rule.worded().items()]
    return "; ".join(parts) or "anything else"


def _wording(phrases: Iterable[str]) -> str:
    named = [phrase[1:] for phrase in phrases if phrase.startswith("@")]
    own = [phrase.replace("|", "/") for phrase in phrases if not phrase.startswith("@")]
    return ", ".join([*(f"*{name}*" for name in named), *(f"“{phrase}”" for phrase in own)])


def _then(rule: Rule) -> str:
    wait = f" after {rule.retry_after_s / 3_600:g} h" if rule.retry_after_s else ""
    bound = f", {rule.tries} tries, then {rule.then}" if rule.then else ""
    return f"{rule.action}{wait}{bound}{', alert' if rule.alert else ''}"
