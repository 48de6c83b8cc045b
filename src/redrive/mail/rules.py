"""What is done about a reply: the first rule that fits, in the table's order.

The table is data in `table/`: stage and exception, the provider's own tokens, final wording, wording that
overrides the code, enhanced code, basic code, first digit, no code at all (R6). A user's file adds rules
before all of ours, or changes ours by their id. This module never looks at a clock, a message or a queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from redrive.mail.replies import Judgement, Reply
from redrive.mail.rule import Rule
from redrive.mail.rule_file import Table, default_table, read_file
from redrive.mail.wording import Vocabulary, plain

_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "с": 1, "м": 60, "ч": 3_600, "秒": 1, "分": 60, "小": 3_600, "时": 3_600}
_WAIT = re.compile(
    r"\b(?:in|after|for|within|wait|again|least|about|retry|nach|dans|apres|en|em|tra|fra|over|na|za|через|после)"
    r"[ :=]{0,3}(?:at least |another |about |etwa )?(\d{1,6}) {0,2}"
    r"(s|secs?|seconds?|sekunden|secondes?|segundos?|secondi|seconden|sekund|секунд[аы]?|"
    r"m|mins?|minutes?|minuten?|minutos?|minuti|minut|минут[аы]?|h|hrs?|hours?|stunden?|heures?|horas?|ore|uur|godzin|час[ао]?в?)\b"
)
_WAIT_EAST = re.compile(r"(\d{1,6}) {0,2}(秒|分|小时|时)")
_WAIT_CLOCK = re.compile(r"\b(?:in|for|after|again) (\d{1,2}):(\d{2}):(\d{2})\b")
_LONGEST_WAIT_S = 86_400.0


class Rules:
    """A table of rules, ready to judge. Made once, used from anywhere."""

    def __init__(self, table: Table) -> None:
        self.table = table
        lists = {name: table.words[name] for name in table.words}
        for rule in table.rules:
            for key, phrases in rule.worded().items():
                lists[_inline(rule.id, key)] = [phrase for phrase in phrases if not phrase.startswith("@")]
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


def _inline(rule_id: str, key: str) -> str:
    return f"{rule_id}.{key}"


def _names(rule_id: str, key: str, phrases: Iterable[str]) -> frozenset[str]:
    return frozenset(
        phrase[1:] if phrase.startswith("@") else _inline(rule_id, key) for phrase in phrases
    )


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


def asked_wait_s(text: str) -> float | None:
    """The wait that a reply asks for ("try again in 5 minutes"), at most a day."""
    text = plain(text)
    if clock := _WAIT_CLOCK.search(text):
        wait_s = int(clock[1]) * 3_600 + int(clock[2]) * 60 + int(clock[3])
    elif asked := _WAIT.search(text) or _WAIT_EAST.search(text):
        wait_s = int(asked[1]) * _unit_s(asked[2])
    else:
        return None
    return min(float(wait_s), _LONGEST_WAIT_S) if wait_s else None


def _unit_s(unit: str) -> int:
    return _UNIT_S.get(unit[0], 3_600)
