"""The filter language: what it means, what it refuses and where, and that no value reaches the SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.office.filters import FIELDS, Filter, FilterError, compile_filter, parse
from redrive.office.filters.terms import (
    Aged,
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
from redrive.office.index.cursors import Cursor, Order
from redrive.office.index.finding import count, find
from redrive.office.statements import load_sql

EXAMPLE = (
    'queue:email:send tenant:acme code:550 reason:"mailbox full" age:>2h kind:permanent attempts:>=3'
    " redriven:0 payload.order_id:7 text"
)
PIECES = (
    *(f"{field}:" for field in FIELDS),
    "payload.order_id:",
    "payload.items.0.sku:",
    *(
        '"',
        "\\",
        ",",
        "-",
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
        ("companyId:acme", 0, "no field"),
        ('code:550 "mailbox', 9, "never closed"),
        ("code:", 5, "a value is missing"),
        ("code:550,", 9, "a value is missing"),
        ("code:>550", 6, "cannot be compared"),
        ("attempts:>1,2", 12, "several values"),
        ("attempts:many", 9, "no whole number"),
        ("age:2h", 4, "needs a > or <"),
        ("age:>2y", 5, "no duration"),
        ("died:>yesterday", 6, "no instant"),
        ("died:>0001-01-01", 6, "no instant"),
        ("kind:odd", 5, "no kind"),
        ("payload:7", 0, "needs a path"),
        ("payload..a:7", 0, "no path"),
        ('payload.a["b"]:7', 10, "stray"),
        ("payload.total:>much", 15, "no number"),
        ("-", 1, "lone -"),
        (": x", 0, "stray"),
        ('code:"550"x', 10, "after the end"),
        ('reason:""', 7, "empty reason"),
        ('""', 0, "no text"),
        ("a\x1bb", 1, "control character"),
        ("x" * 2_001, 2_000, "longer than"),
        ("a " * 51, 100, "more than 50 terms"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_what_to_do(
    text: str, position: int, what: str
) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.position == position
    assert what in caught.value.problem
    assert caught.value.advice
    assert f"character {position + 1}" in str(caught.value)


def attempt(text: str) -> Filter | FilterError:
    try:
        return parse(text)
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
    db.execute(load_sql("index")["schema"])
    for number, body in enumerate(BODIES):
        row = (str(number), "q", "t", "poison", None, None, "why", "f", 1, 0, 0, number, number, 1.5)
        db.execute(load_sql("index")["add_letter"], row)
        db.execute(load_sql("index")["add_body"], (str(number), body))
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
    page = find(relations, condition, Cursor.start(Order.OLDEST), 100, 10)
    assert count(relations, condition) == len(page.letters)
    if len(read.terms) == 1:
        opposite = Filter((replace(read.terms[0], negated=not read.terms[0].negated),))
        rest = count(relations, compile_filter(opposite, now=1_000))
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
