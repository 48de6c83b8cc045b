"""Every text is in the catalogue, in both languages, and no template has one of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import redrive.web.pages
from redrive.core.alerts import AlertPhase, AlertSeverity
from redrive.core.failure import Kind, Scope
from redrive.core.lanes import LaneState
from redrive.core.letters import MessagePhase, RedriveResult
from redrive.core.lifecycle import TRANSITIONS, State
from redrive.core.verdict import Reason
from redrive.office.access import Role
from redrive.office.concerns import ConcernKind
from redrive.office.groups import GroupBy, GroupState
from redrive.office.operations import OperationKind, OperationState
from redrive.web.pages.catalogue import Language, Texts, preferred_language, read_catalogue
from redrive.web.problems import PROBLEMS

FOLDER = Path(redrive.web.pages.__file__).parent
TEMPLATES = sorted((FOLDER / "templates").glob("*.html"))
NAMED = {
    "role": [one.value for one in Role],
    "reason": [one.value for one in Reason],
    "advice": [one.value for one in Reason],
    "lane": [one.value for one in LaneState],
    "group_state": [one.value for one in GroupState],
    "kind": [one.value for one in OperationKind],
    "operation": [one.value for one in OperationState],
    "concern": [one.value for one in ConcernKind],
    "problem": [one.name for one in PROBLEMS],
    "phase": [one.value for one in State],
    "failure": [one.value for one in Kind],
    "scope": [one.value for one in Scope],
    "result": [one.value for one in RedriveResult],
    "messages": [f"{word}{one.value}" for word in ("", "when_", "none_") for one in MessagePhase],
    "grouped": [one.value for one in GroupBy],
    "severity": [one.value for one in AlertSeverity],
    "alert_state": [one.value for one in AlertPhase],
    "move": [one.move.value for one in TRANSITIONS if one.after is State.REMOVED],
}


def asked() -> Iterator[str]:
    """The keys that templates and pages name in full."""
    for path in (*TEMPLATES, *FOLDER.glob("*.py")):
        text = path.read_text("utf-8")
        yield from re.findall(r"""\bt\(\s*["']([a-z_]+\.[a-z_ -]+)["'](?!\s*~)""", text)
        yield from re.findall(r"""["'](sign_in\.(?!html)[a-z_]+)["']""", text)


def test_every_text_has_both_languages() -> None:
    for key, text in read_catalogue().items():
        for language in Language:
            assert text.get(language.value, "").strip(), f"{key} has no {language}"


def test_both_languages_fill_in_the_same_values() -> None:
    for key, text in read_catalogue().items():
        names = [
            {name for _, name, _, _ in Formatter().parse(text[language]) if name} for language in Language
        ]
        assert names[0] == names[1], key


def test_every_text_that_is_asked_for_is_there() -> None:
    known = read_catalogue()
    assert sorted({key for key in asked() if key not in known}) == []


@pytest.mark.parametrize("table", NAMED)
def test_what_has_a_name_in_the_code_has_a_text(table: str) -> None:
    known = read_catalogue()
    assert [name for name in NAMED[table] if f"{table}.{name}" not in known] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_text_of_its_own(path: Path) -> None:
    text = path.read_text("utf-8")
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", text, flags=re.DOTALL)
    text = re.sub(r' data-[a-z]+="[^"]*"', "", text)
    attributes = re.findall(r'(?:aria-label|placeholder|title|alt)="([^"]*)"', text)
    shown = [*re.sub(r"<[^>]*>", "\n", text).split("\n"), *attributes]
    assert [one for one in shown if re.search(r"[^\W\d_]", one)] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_marks_a_text_as_safe(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(
        r"\|\s*safe\b|autoescape|Markup|<script(?! type=\"module\" src)|\son[a-z]+=|style=", text
    )


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        (None, "", "en"),
        (None, "pt-BR,pt;q=0.9", "pt"),
        (None, "en;q=0.2, pt;q=0.8", "pt"),
        (None, "de, pt;q=0", "en"),
        (None, ";;;q=,=", "en"),
        ("pt", "en", "pt"),
        ("xx", "en", "en"),
    ],
)
def test_the_language_is_the_one_chosen_or_preferred(
    chosen: str | None, accepted: str, language: str
) -> None:
    assert preferred_language(chosen, accepted) == language


def test_numbers_and_times_are_written_as_each_language_has_them() -> None:
    english, portuguese = Texts(Language.ENGLISH, 10_000_000), Texts(Language.PORTUGUESE, 10_000_000)
    assert (english.number(1234567), portuguese.number(1234567)) == ("1,234,567", "1.234.567")
    assert (english.number(0.5), portuguese.number(0.5)) == ("0.5", "0,5")
    assert (english.ago(10_000_000 - 200_000), portuguese.ago(10_000_000 - 200_000)) == (
        "3 min ago",
        "há 3 min",
    )
    assert (english.ago(10_000_000 + 7_200_000), portuguese.ago(10_000_000)) == ("in 2 h", "agora")


def test_a_fraction_is_written_where_it_says_something() -> None:
    texts = Texts(Language.ENGLISH, 0)
    assert [texts.number(one) for one in (0.04, 9.96, 99.9, 100.4, 1_000.0, 2**60)] == [
        *("0.0", "10.0", "99.9", "100", "1,000"),
        f"{2**60:,}",
    ]
    assert Texts(Language.PORTUGUESE, 0).number(1_234.5) == "1.234"


def test_a_name_that_no_text_is_for_is_shown_as_it_is() -> None:
    texts = Texts(Language.PORTUGUESE, 0)
    assert texts.named("reason", "bounced") == "destinatário recusado"
    assert texts.named("reason", "of a newer version") == "of a newer version"
