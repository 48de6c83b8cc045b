"""The filter language: what it means, what it refuses and where, and that no value reaches the SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.machine.statements import load_sections
from redrive.office.filters import FIELDS, Filter, FilterError, compile_filter, parse
from redrive.office.filters.terms import (
    Aged,
    AllOf,
    Comparison,
    Counted,
    Dated,
    InPayload,
    MomentField,
    Named,
    NameField,
    NumberField,
    PayloadValue,
    Reasoned,
    Text,
)
from redrive.office.index.cursors import Cursor, LetterOrder
from redrive.office.index.find import count, find

EXAMPLE = (
    'queue:email:send tenant:acme code:550 reason:"mailbox full" age:>2h kind:permanent attempts:>=3'
    " redriven:0 payload.order_id:7 text"
)
NOW = 1_800_000_000_000  # 2027-01-15T08:00Z
PIECES = (
    *(f"{field}:" for field in FIELDS),
    "payload.order_id:",
    "payload.items.0.sku:",
    *(
        '"',
        "\\",
        ",",
        "-",
        "(",
        ")",
        "NOT ",
        " AND ",
        " OR ",
        "..",
        "*",
        "5xx",
        "today",
        ">",
        ">=",
        "<",
        " ",
        "550",
        "2h",
        "2026-01-31",
        "acme",
        "não",
        "%",
        "_",
        "'",
        "\x00",
    ),
)
BODIES = (
    b'{"order_id": 7, "items": [{"sku": "x"}]}',
    b"[[1]]",
    b"7",
    b'{"": {"%": null}}',
    b"\xff\x00",
    b"{",
)


def texts() -> st.SearchStrategy[str]:
    """Anything, and things that look like filters."""
    likely = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)
    return likely | st.text(max_size=60)


def test_the_example_of_the_documentation_says_what_it_looks_like() -> None:
    assert parse(EXAMPLE).terms == (
        Named(NameField.QUEUE, ("email:send",)),
        Named(NameField.TENANT, ("acme",)),
        Named(NameField.CODE, ("550",)),
        Reasoned(("mailbox full",)),
        Aged(Comparison.MORE, 7_200),
        Named(NameField.KIND, ("permanent",)),
        Counted(NumberField.ATTEMPTS, Comparison.AT_LEAST, (3,)),
        Counted(NumberField.REDRIVEN, Comparison.EQUAL, (0,)),
        InPayload(("order_id",), Comparison.EQUAL, (PayloadValue("7"),)),
        Text("text"),
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("NOT code:504", "-code:504"),
        ("NOT NOT code:504", "code:504"),
        ("code:504 AND NOT tenant:acme", "code:504 -tenant:acme"),
        ("code:504 OR code:503", "(code:504 OR code:503)"),
        ("tenant:acme AND (code:504 OR age:>2h)", "tenant:acme (code:504 OR age:>2h)"),
        ("(tenant:acme code:504) OR age:>2h", "((tenant:acme code:504) OR age:>2h)"),
        ("NOT (tenant:acme code:504)", "-(tenant:acme code:504)"),
        ("NOT tenant:acme code:504", "-tenant:acme code:504"),
        ('-(code:504 OR (age:>2h OR "full"))', '-(code:504 OR age:>2h OR "full")'),
        ('"NOT" code:504', '"NOT" code:504'),
        ('code:504 OR "503"', '(code:504 OR "503")'),
        ("Tenant:acme CODE:504", "tenant:acme code:504"),
        ("companyId:acme jobId:x lastFailureCode:504", "tenant:acme id:x code:504"),
        ("movedToDLQAt:>2026-01-31 enqueuedAt:<2026-01-31T08:00Z", None),
        ("firstDiedAt:>03:00", "died:>2027-01-15T03:00:00.000Z"),
        ("MovedToDLQAt:>03:00", "moved:>2027-01-15T03:00:00.000Z"),
        ("redied:>03:00", "redied:>2027-01-15T03:00:00.000Z"),
        (
            "lastFailureReason:full failedAttempts:3 originalData.Order:7",
            "reason:full attempts:3 payload.Order:7",
        ),
        ("code:5XX,5.1.x", "code:5xx,5.1.x"),
        ('code:"5xx" fingerprint:"6f1c"', 'code:"5xx" fingerprint:"6f1c"'),
        ("id:01A1E2* fingerprint:6F1C queue:email:*", "id:01A1E2* fingerprint:6f1c* queue:email:*"),
        ("kind:Permanent", "kind:permanent"),
        ("age:>1w", "age:>7d"),
        ("age:<2h30m", "age:<2h30m"),
        ("attempts:3..5", "attempts:>=3 attempts:<=5"),
        ("-age:1h..1d", "-(age:>=1h age:<=1d)"),
        ("died:>03:00", "died:>2027-01-15T03:00:00.000Z"),
        ("died:>08:00:01", "died:>2027-01-14T08:00:01.000Z"),
        ("died:>08:30+01:00", "died:>2027-01-15T07:30:00.000Z"),
        ("died:>Yesterday", "died:>2027-01-14T00:00:00.000Z"),
        ("died:today", "died:>=2027-01-15T00:00:00.000Z died:<2027-01-16T00:00:00.000Z"),
        ("died:2026-11-15..2026-11-16", "died:>=2026-11-15T00:00:00.000Z died:<2026-11-17T00:00:00.000Z"),
        ("died:yesterday..03:00", "died:>=2027-01-14T00:00:00.000Z died:<=2027-01-15T03:00:00.000Z"),
    ],
)
def test_what_is_understood_has_one_canonical_text(text: str, canonical: str | None) -> None:
    read = parse(text, NOW)
    assert canonical is None or str(read) == canonical
    assert parse(str(read)) == read


def test_without_an_instant_to_count_from_nothing_relative_is_read() -> None:
    for text in ("died:>03:00", "died:yesterday", "enqueued:<today"):
        with pytest.raises(FilterError, match="depends on the day"):
            parse(text)


def test_a_term_may_be_negated_and_may_have_several_values() -> None:
    assert parse('-code:550,"5.1.1, gone" -"two words"').terms == (
        Named(NameField.CODE, ("550", "5.1.1, gone"), negated=True),
        Text("two words", negated=True),
    )


def test_a_date_means_its_midnight_in_utc() -> None:
    assert parse("died:<=2026-01-31").terms == parse("died:<=2026-01-31T01:00+01:00").terms
    assert parse("enqueued:>1970-01-02").terms == (Dated(MomentField.ENQUEUED, Comparison.MORE, 86_400_000),)


def test_an_empty_text_means_every_letter() -> None:
    assert parse("  ") == Filter()


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("tenant:acme colour:red", 12, "no field 'colour'"),
        ("http://example.com", 0, "no field 'http'"),
        ("code.x:acme", 0, "no field"),
        ('code:550 "mailbox', 9, "never closed"),
        ("code:", 5, "a value is missing"),
        ("code:550,", 9, "a value is missing"),
        ("code:>550", 6, "cannot be compared"),
        ("attempts:>1,2", 12, "several values"),
        ("attempts:many", 9, "not a whole number"),
        ("age:2h", 4, "needs a > or <"),
        ("age:>2y", 5, "not a duration"),
        ("died:>tomorrow", 6, "not a valid time"),
        ("died:03:00", 5, "needs a > or <"),
        ("died:>25:00", 6, "not a valid time"),
        ("died:2026-01-31..2026-01-30", 5, "ends before it begins"),
        ("age:2d..1h", 4, "ends before it begins"),
        ("age:>2h1w", 5, "not a duration"),
        ("age:>-2h", 5, "not negative"),
        ("died:>0001-01-01", 6, "not a valid time"),
        ("kind:odd", 5, "not a kind"),
        ("payload:7", 0, "needs a path"),
        ("payload..a:7", 0, "not a path"),
        ('payload.a["b"]:7', 10, "stray"),
        ("payload.total:>much", 15, "not a number"),
        ("-", 1, "lone -"),
        (": x", 0, "stray"),
        ('code:"550"x', 10, "after the end"),
        ('reason:""', 7, "reason is empty"),
        ('""', 0, "no text"),
        ("a\x1bb", 1, "control character"),
        ("x" * 2_001, 2_000, "longer than"),
        ("a " * 51, 100, "more than 50 terms"),
        ("age:1h..2h " * 26, 286, "more than 50 terms"),
        ("(" * 21 + "a", 20, "more than 20 parentheses"),
        ("(code:504", 0, "never closed"),
        ("code:504)", 8, "a ) without its ("),
        ("()", 1, "missing after ("),
        ("NOT", 3, "missing after NOT"),
        ("code:504 AND", 12, "missing after AND"),
        ("OR code:504", 0, "missing before OR"),
        ("code:504 OR OR code:503", 12, "missing after OR"),
        ('tenant:""', 7, "tenant is empty"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_what_to_do(
    text: str, position: int, what: str
) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, NOW)
    assert caught.value.position == position
    assert what in caught.value.problem
    assert caught.value.advice
    assert f"character {position + 1}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "position", "spelling"),
    [
        ("not code:504", 0, "write NOT,"),
        ("code:504 Or code:503", 9, "write OR,"),
        ("mailbox and full", 8, '"and" for the text'),
        ("code:504 && code:503", 9, "write AND"),
        ("a||b", 1, "write OR"),
        ("!code:504", 0, "write NOT"),
        ("code=504", 4, "write code:504"),
        ("code==504", 4, "write code:504"),
        ("code = 504", 5, "write code:504"),
        ("code!=504", 4, "write -code:504"),
        ("code <> 504", 5, "write -code:504"),
        ("code:!504", 5, "write -code:504"),
        ("code:=504", 5, "write code:504"),
        ("code:-504", 5, "-field:value"),
        ("code:NOT 504", 5, '"NOT" in quotes'),
        ("age > 2h", 4, "write age:>2h"),
        ("age>=2h", 3, "write age:>=2h"),
        ("attempts => 3", 9, "write attempts:>=3"),
        ("age: >2h", 4, "write age:>2h without a space"),
        ("age:> 2h", 5, "write age:>2h without a space"),
        ("code: 504", 5, "write code:504 without a space"),
        ("code :504", 5, "write code:504"),
        ("code\uff1a504", 4, "write code:504"),
        ("code:504, 503", 9, "without spaces"),
        ("code:504|503", 5, "by commas"),
        ("code:504;503", 5, "by commas"),
        ("code:(504 OR 503)", 5, "with commas"),
        ("code:504 OR 503", 12, "code:503,504"),
        ("code IN (504, 503)", 0, "write code:VALUE"),
        ("code in 504", 0, "write code:VALUE"),
        ("code is 504", 0, "write code:VALUE"),
        ("tenant acme", 0, "write tenant:acme"),
        ("code~504", 4, "write code:504"),
        ("code ~ 504", 5, "write code:504"),
        ("timed~out", 5, 'in "quotes"'),
        ("code:504 + tenant:acme", 9, "must all hold"),
        ("EXCEPT code:504", 0, "AND, OR, NOT"),
        ("tenant:acme code:504 OR code:503", 21, "(code:503 OR code:504)"),
        ("tenant:acme AND code:504 OR code:503", 25, "which goes first"),
        ("code:504 code:503", 9, "write code:504,503 for either"),
        ("attempts:3 (age:>2h attempts:4)", 11, "write attempts:3,4 for either"),
        ("-code:504 OR NOT code:503", 13, "write -code:504,503"),
        ("tenant:a*e", 7, "write tenant:a*"),
        ("tenant:%acme%", 7, "write tenant:acme*"),
        ("tenant:*", 7, "leave it out"),
        ("code:500..599", 5, "code:5xx"),
        ("time*", 0, "write time,"),
        ("reason:time*", 7, "without"),
        ("payload.name:ana*", 13, "search for text"),
        ("id:01a1e2", 3, "id:01a1e2*"),
        ("died:>2h", 6, "age:>2h for longer ago"),
        ("tennant:acme", 0, "did you mean tenant?"),
        ("company:acme", 0, "did you mean tenant?"),
        ("\u201cmailbox full\u201d", 0, "straight double quotes"),
        ("reason:\u201cfull\u201d", 7, "straight double quotes"),
        ("reason:'mailbox full'", 7, "straight double quotes"),
        ("\u2013code:504", 0, "a plain minus"),
        ("- code:504", 1, "right before a term"),
        ("--code:504", 1, "one turns a term around"),
    ],
)
def test_what_other_languages_write_is_refused_with_the_right_spelling(
    text: str, position: int, spelling: str
) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, NOW)
    assert caught.value.position == position
    assert spelling in caught.value.advice


def attempt(text: str) -> Filter | FilterError:
    try:
        return parse(text, NOW)
    except FilterError as error:
        return error


@given(texts())
def test_any_text_is_a_filter_or_has_a_place_that_is_wrong(text: str) -> None:
    read = attempt(text)
    if isinstance(read, FilterError):
        assert 0 <= read.position <= len(text)
    else:
        assert parse(str(read)) == read


@given(texts(), st.text(max_size=5))
def test_nothing_that_a_person_wrote_gets_into_the_condition(text: str, scope: str) -> None:
    read = attempt(text)
    if isinstance(read, FilterError):
        return
    condition = compile_filter(read, now=0, scope=scope)
    pieces = re.sub(r":value_\d+", "?", f"{condition.narrow} {condition.deep}")
    assert not re.search(r"[^a-z_ ?(),'<>=\\]", re.sub(r"None|'\\'|coalesce\(\w+, ''\)", "", pieces)), pieces
    assert condition.narrow.startswith("tenant = :value_0")
    assert condition.bindings["value_0"] == scope


@pytest.fixture(scope="module")
def relations() -> Iterator[apsw.Connection]:
    """The index's relations with one letter for each odd payload."""
    db = apsw.Connection(":memory:")
    db.execute(load_sections("redrive.office", "statements/index.sql")["schema"])
    for number, body in enumerate(BODIES):
        row = (str(number), "q", "t", "poison", None, None, "why", "f", 1, 0, 0, number, number, 1.5, number)
        db.execute(load_sections("redrive.office", "statements/index.sql")["add_letter"], row)
        db.execute(load_sections("redrive.office", "statements/index.sql")["add_body"], (str(number), body))
    yield db
    db.close()


@given(text=texts())
def test_every_filter_can_be_asked_and_its_opposite_finds_the_rest(
    relations: apsw.Connection, text: str
) -> None:
    read = attempt(text)
    if isinstance(read, FilterError):
        return
    condition = compile_filter(read, now=1_000)
    page = find(relations, condition, Cursor.start(LetterOrder.OLDEST), 100, 10)
    assert count(relations, condition) == len(page.letters)
    if read.terms:
        rest = count(relations, compile_filter(Filter((AllOf(read.terms, negated=True),)), now=1_000))
        assert rest == len(BODIES) - len(page.letters)


@pytest.mark.parametrize(
    "path", ["order_id", "items.0.sku", "a-b", "a/b", "ação", "*", "#", "#-1", "a'b", "'", "@", "99999999999"]
)
def test_any_path_can_be_asked_for(relations: apsw.Connection, path: str) -> None:
    condition = compile_filter(parse(f"payload.{path}:x"), now=0)
    assert count(relations, condition) == (path == "items.0.sku")


def test_only_payload_and_text_are_dear() -> None:
    assert compile_filter(parse("code:550 age:>1h reason:full"), now=0).deep is None
    assert compile_filter(parse("code:550 full"), now=0).deep is not None
    assert compile_filter(parse("payload.a:1"), now=0).deep is not None
