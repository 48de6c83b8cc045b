"""What is done about a reply: the first rule that fits, in the table's order.

The table is data in `table/`: stage and exception, the provider's own tokens, final wording, wording that
overrides the code, enhanced code, basic code, first digit, no code at all. A user's file adds rules before
all of ours, or changes ours by their id. This module never looks at a clock, a message or a queue.

A retry waits as long as the reply asks for, in several languages: only a number with a unit after a word
that asks for it counts; "timeout after 30 seconds" is read as a wait too, which does no harm. Never more
than a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from redrive.mail.judging.replies import Judgement, Reply
from redrive.mail.judging.rule import Rule
from redrive.mail.judging.rule_file import Table, default_table, read_file
from redrive.mail.judging.wording import Vocabulary, plain

LONGEST_S = 86_400.0
_ASKING = (
    "in|after|for|within|wait|least|about|retry|another|"
    "nach|dans|apres|en|em|tra|fra|dopo|over|na|za|po|через|после"
)
_AMOUNT = re.compile(rf"\b(?:{_ASKING})[ :=]{{1,3}}(\d{{1,6}}) {{0,2}}([^\W\d_]{{1,10}})")
_EAST_AMOUNT = re.compile(r"(\d{1,6}) {0,2}(秒|分|小时|時間|时)")
_CLOCK = re.compile(rf"\b(?:{_ASKING}) (\d{{1,2}}):(\d{{2}}):(\d{{2}})\b")
_UNITS = {
    1: "s sec secs second seconds sekunden secondes seconden segundos secondi sekund секунд секунды 秒",
    60: "m min mins minute minutes minuten minutos minuti minut минут минуты 分",
    3_600: "h hr hrs hour hours stunde stunden heure heures hora horas ora ore uur godzin час часа часов",
}
_UNIT_S = {unit: seconds for seconds, units in _UNITS.items() for unit in units.split()}
_UNIT_S |= dict.fromkeys(("小时", "時間", "时"), 3_600)


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


def asked_wait_s(text: str) -> float | None:
    """The seconds that a reply asks us to wait, or None."""
    text = plain(text)
    if clock := _CLOCK.search(text):
        wait_s = int(clock[1]) * 3_600 + int(clock[2]) * 60 + int(clock[3])
    else:
        found = [*_AMOUNT.findall(text), *_EAST_AMOUNT.findall(text)]
        amounts = [int(number) * _UNIT_S[unit] for number, unit in found if unit in _UNIT_S]
        wait_s = amounts[0] if amounts else 0
    return min(float(wait_s), LONGEST_S) or None
