"""The rules as data: what one row may hold, and how a TOML file becomes rows.

Ours and a user's files have one format: `[words.NAME]` with lists of phrases by language, `[rules.ID]`
with conditions and a judgement. A user's row with a known id changes the keys it names; a new one stands
before all of ours; words are added. Errors name the file, the rule and the key. Nothing is judged here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from redrive.core.errors import ConfigurationError
from redrive.core.failure import Scope
from redrive.mail.replies import Action, Reply, Severity, Stage
from redrive.mail.wording import read_phrase

FILES = ("words", "stage", "provider", "final", "wording", "codes")
_CODE = re.compile(r"none|[245][0-9x][0-9x]")
_ENHANCED = re.compile(r"none|([245x]\.(?:x|\d{1,3}))\.(?:x|(\d{1,3})(?:-(\d{1,3}))?)")
_PHRASES = ("says", "also", "unless")


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. Conditions that are given must all hold; in each list, one entry is enough."""

    id: str
    action: Action
    scope: Scope
    why: str
    stages: tuple[Stage, ...] = ()
    names: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    severity: tuple[Severity, ...] = ()
    codes: tuple[str, ...] = ()
    enhanced: tuple[str, ...] = ()
    reused: bool | None = None
    says: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    retry_after_s: float | None = None
    alert: bool = False
    tries: int | None = None
    then: Action | None = None
    suppress: bool = False

    def phrases(self) -> Mapping[str, tuple[str, ...]]:
        """The lists of phrases that this rule asks for; `@name` stands for a list of words."""
        return {key: said for key in _PHRASES if (said := getattr(self, key))}

    def fits(self, reply: Reply) -> bool:
        """Whether everything but the wording holds."""
        return (
            (not self.stages or reply.stage in self.stages)
            and (not self.names or reply.name in self.names)
            and (not self.providers or reply.provider in self.providers)
            and (not self.severity or reply.severity in self.severity)
            and (self.reused is None or reply.reused is self.reused)
            and (not self.codes or any(_is_code(code, reply.code) for code in self.codes))
            and (not self.enhanced or any(_is_enhanced(each, reply.enhanced) for each in self.enhanced))
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Rules in order, and the named lists of phrases that they share."""

    rules: tuple[Rule, ...] = ()
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _is_code(pattern: str, code: int | None) -> bool:
    if code is None or pattern == "none":
        return code is None and pattern == "none"
    return all(asked in ("x", digit) for asked, digit in zip(pattern, str(code), strict=False))


@cache
def _enhanced(pattern: str) -> tuple[str, str, int, int]:
    first, subject, detail = pattern.split(".")
    low, _, high = detail.partition("-")
    return first, subject, 0 if low == "x" else int(low), 999 if low == "x" else int(high or low)


def _is_enhanced(pattern: str, enhanced: str | None) -> bool:
    if enhanced is None or pattern == "none":
        return enhanced is None and pattern == "none"
    first, subject, low, high = _enhanced(pattern)
    found = enhanced.split(".")
    return first in ("x", found[0]) and subject in ("x", found[1]) and low <= int(found[2]) <= high


@cache
def default_table() -> Table:
    """The table as it ships, its files in order."""
    table = Table()
    for name in FILES:
        text = files(__package__).joinpath("table", f"{name}.toml").read_text("utf-8")
        added = _table(tomllib.loads(text), f"{name}.toml", table)
        table = Table((*table.rules, *added.rules), added.words)
    return table


def read_file(path: Path, table: Table) -> Table:
    """The table with the file at `path` laid over it."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML in UTF-8: {error}") from None
    given = _table(document, path.name, table)
    known = {rule.id for rule in table.rules}
    changed = {rule.id: rule for rule in given.rules}
    new = tuple(rule for rule in given.rules if rule.id not in known)
    return Table((*new, *(changed.get(rule.id, rule) for rule in table.rules)), given.words)


def _table(document: Mapping[str, Any], origin: str, below: Table) -> Table:
    if unknown := document.keys() - {"words", "rules"}:
        raise ConfigurationError(f"{origin}: {min(unknown)} is no section: write [words.NAME] or [rules.ID]")
    words = dict(below.words)
    for name, languages in _sections(document, "words", origin):
        phrases = [phrase for given in languages.values() for phrase in _list(given, f"words {name}", origin)]
        for phrase in phrases:
            _check_phrase(phrase, f"{origin}: words {name}")
        words[name] = (*words.get(name, ()), *phrases)
    known = {rule.id: rule for rule in below.rules}
    rules = [
        _rule(rule_id, row, f"{origin}: rule {rule_id}", known.get(rule_id), words)
        for rule_id, row in _sections(document, "rules", origin)
    ]
    return Table(tuple(rules), words)


def _sections(document: Mapping[str, Any], kind: str, origin: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, section in document.get(kind, {}).items():
        if not isinstance(section, dict):
            raise ConfigurationError(f"{origin}: {kind} {name} is a section: write [{kind}.{name}]")
        yield name, section


def _rule(
    rule_id: str, row: Mapping[str, Any], where: str, known: Rule | None, words: Mapping[str, object]
) -> Rule:
    names = {each.name for each in fields(Rule)} - {"id"}
    if unknown := row.keys() - names:
        raise ConfigurationError(f"{where}: {min(unknown)} is no key: use one of {', '.join(sorted(names))}")
    values = {key: _value(key, value, where, words) for key, value in row.items()}
    missing = {"action", "scope", "why"} - values.keys()
    if known is None and missing:
        raise ConfigurationError(f"{where}: {min(missing)} is missing: a new rule needs action, scope and why")
    rule = Rule(rule_id, **values) if known is None else replace(known, **values)
    if (rule.tries is None) is not (rule.then is None):
        raise ConfigurationError(f"{where}: tries and then belong together: give both, or neither")
    return rule


def _value(key: str, value: object, where: str, words: Mapping[str, object]) -> object:
    try:
        return _checked(key, value, words)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {key}: {error}") from None


def _checked(key: str, value: Any, words: Mapping[str, object]) -> object:
    match key:
        case "action" | "then":
            return Action(value)
        case "scope":
            return Scope(value)
        case "why":
            return _of(str, value, "a sentence")
        case "alert" | "suppress" | "reused":
            return _of(bool, value, "true or false")
        case "tries":
            return _positive(_of(int, value, "a whole number"))
        case "retry_after_s":
            return _positive(float(_of((int, float), value, "a number of seconds")))
        case _:
            return tuple(_entry(key, entry, words) for entry in _strings(value))


def _entry(key: str, entry: str, words: Mapping[str, object]) -> str:
    match key:
        case "stages":
            return Stage(entry)
        case "severity":
            return Severity(entry)
        case "codes" if not _CODE.fullmatch(entry):
            raise ValueError(f"{entry!r} is no code: write 550, 55x, 5xx or none")
        case "enhanced" if not _ENHANCED.fullmatch(entry):
            raise ValueError(f"{entry!r} is no enhanced code: write 5.7.1, x.2.2, 5.7.600-649, 5.6.x or none")
        case "says" | "also" | "unless" if entry.startswith("@"):
            if entry[1:] not in words:
                raise ValueError(f"there are no words {entry[1:]!r}: write [words.{entry[1:]}] first")
        case "says" | "also" | "unless":
            read_phrase(entry)
    return entry


def _check_phrase(phrase: str, where: str) -> None:
    try:
        read_phrase(phrase)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _list(value: object, what: str, origin: str) -> tuple[str, ...]:
    try:
        return _strings(value)
    except ValueError as error:
        raise ConfigurationError(f"{origin}: {what}: {error}") from None


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{value!r} is not a list of texts")
    return tuple(value)


def _of(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{value!r} is not {name}")
    return value


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError(f"{value!r} is not more than 0")
    return value
