"""How TOML files become the table: ours in `table/`, and a user's over them.

Both have one format: `[sets]` with words that stand for one another, `[words.NAME]` with lists of phrases
by language, `[rules.ID]` with conditions and a judgement. A user's row with a known id changes the keys it
names, a new one stands before all of ours, words and sets are added. Every error names file, rule and key.
Nothing is judged here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from redrive.core.errors import ConfigurationError
from redrive.core.failure import Scope
from redrive.mail.judging.replies import Action, Severity, Stage
from redrive.mail.judging.rule import Rule, check_code, check_enhanced
from redrive.mail.judging.wording import read_phrase

FILES = ("words", "languages", "stage", "provider", "final", "wording", "codes")
_SECTIONS = ("sets", "words", "rules")
_MOST = 1_000_000
_SET = re.compile(r"\{([a-z-]{1,40})\}")
_KEYS = tuple(each.name for each in fields(Rule) if each.name != "id")


@dataclass(frozen=True, slots=True)
class Table:
    """Rules in order, and the lists of phrases and sets of words that they share."""

    rules: tuple[Rule, ...] = ()
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)


@cache
def default_table() -> Table:
    """The table as it ships, its files in order."""
    table = Table()
    for name in FILES:
        text = files(__package__).joinpath("table", f"{name}.toml").read_text("utf-8")
        read = _Reader(f"{name}.toml", table).read(tomllib.loads(text))
        table = replace(read, rules=(*table.rules, *read.rules))
    return table


def read_file(path: Path, table: Table) -> Table:
    """The table with the file at `path` laid over it, or ConfigurationError."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML in UTF-8: {error}") from None
    read = _Reader(path.name, table).read(document)
    given = {rule.id: rule for rule in read.rules}
    changed = [given.pop(rule.id, rule) for rule in table.rules]
    return replace(read, rules=(*given.values(), *changed))


class _Reader:
    """Reads one file's sections over a table that is there already."""

    def __init__(self, origin: str, below: Table) -> None:
        self._origin = origin
        self._known = {rule.id: rule for rule in below.rules}
        self._words = dict(below.words)
        self._sets = dict(below.sets)

    def read(self, document: Mapping[str, Any]) -> Table:
        """The file's own rules, with all words and sets."""
        if unknown := document.keys() - set(_SECTIONS):
            raise self._error(f"{min(unknown)} is not a section", "write [sets], [words.NAME] or [rules.ID]")
        for name, choices in self._section(document, "sets"):
            self._sets[name] = self._guard(f"set {name}", _text, choices)
        for name, languages in self._section(document, "words"):
            self._words[name] = (*self._words.get(name, ()), *self._phrases(name, languages))
        rules = tuple(self._rule(name, row) for name, row in self._section(document, "rules"))
        return Table(rules, self._words, self._sets)

    def _section(self, document: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
        section = document.get(name, {})
        if not isinstance(section, dict):
            raise self._error(f"{name} is a section", f"write [{name}], its keys below it")
        yield from section.items()

    def _phrases(self, name: str, languages: object) -> Iterable[str]:
        where = f"words {name}"
        if not isinstance(languages, dict):
            raise self._error(f"{where} is a section", f"write [words.{name}], a list a language below it")
        for language, phrases in languages.items():
            for phrase in self._guard(f"{where}: {language}", _texts, phrases):
                yield self._guard(f"{where}: {language}", self._phrase, phrase)

    def _rule(self, rule_id: str, row: object) -> Rule:
        where = f"rule {rule_id}"
        if not isinstance(row, dict):
            raise self._error(f"{where} is a section", f"write [rules.{rule_id}], its keys below it")
        if unknown := row.keys() - set(_KEYS):
            raise self._error(f"{where}: {min(unknown)} is not a key", f"use one of {', '.join(_KEYS)}")
        values = {key: self._guard(f"{where}: {key}", self._value, key, value) for key, value in row.items()}
        known = self._known.get(rule_id)
        if known is None and (missing := {"action", "scope", "why"} - values.keys()):
            raise self._error(f"{where}: {min(missing)} is missing", "a new rule has action, scope and why")
        rule = Rule(rule_id, **values) if known is None else replace(known, **values)
        if (rule.tries is None) is not (rule.then is None):
            raise self._error(f"{where}: tries and then belong together", "give both, or neither")
        return rule

    def _value(self, key: str, value: Any) -> object:
        match key:
            case "action" | "then":
                return Action(value)
            case "scope":
                return Scope(value)
            case "why":
                return _text(value)
            case "alert" | "suppress" | "reused":
                return _switch(value)
            case "tries":
                return _whole(value)
            case "retry_after_s":
                return _number(value)
            case _:
                return tuple(self._entry(key, entry) for entry in _texts(value))

    def _entry(self, key: str, entry: str) -> str:
        match key:
            case "stages":
                return Stage(entry)
            case "severity":
                return Severity(entry)
            case "codes":
                return check_code(entry)
            case "enhanced":
                return check_enhanced(entry)
            case "says" | "also" | "unless":
                return self._named(entry) if entry.startswith("@") else self._phrase(entry)
        return entry

    def _named(self, entry: str) -> str:
        if entry[1:] not in self._words:
            raise ValueError(f"there are no words {entry[1:]!r}: write [words.{entry[1:]}] first")
        return entry

    def _phrase(self, phrase: str) -> str:
        """The phrase with its sets written out, checked."""
        for name in _SET.findall(phrase):
            if name not in self._sets:
                raise ValueError(f"phrase {phrase!r}: there is no set {name!r}")
        written = _SET.sub(lambda found: self._sets[found[1]], phrase)
        read_phrase(written)
        return written

    def _guard(self, where: str, check: Any, *values: object) -> Any:
        try:
            return check(*values)
        except ValueError as error:
            raise ConfigurationError(f"{self._origin}: {where}: {error}") from None

    def _error(self, problem: str, advice: str) -> ConfigurationError:
        return ConfigurationError(f"{self._origin}: {problem}: {advice}")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a text")
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{value!r} is not a list of texts")
    return [_text(each) for each in value]


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST:
        raise ValueError(f"{value!r} is not a number above 0, at most {_MOST}")
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, float):
        raise ValueError(f"{value!r} is not a whole number")
    return int(_number(value))
