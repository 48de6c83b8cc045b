"""SQL over dead letters: the names of the entry, what may be asked, what is refused and where, and limits."""

from __future__ import annotations

import json
import time

import msgspec
import pytest

from redrive.core.failure import Kind
from redrive.core.store import Store
from redrive.core.verdict import Reason
from redrive.office.audit import AUDIT, Actor
from redrive.office.documents.letters import letter_document
from redrive.office.index import Index
from redrive.office.masking import UNMASKED
from redrive.office.sql import SAVED, Sql, SqlError, SqlLimits
from tests.office.deaths import MINUTE_MS, bury, letter
from tests.office.desks import make_office

WEEK_MS = 7 * 86_400_000
ANA = Actor("ana@host", "test")
OURS = {
    "id": "jobId",
    "tenant": "companyId",
    "code": "lastFailureCode",
    "failure": "lastFailureReason",
    "attempts": "failedAttempts",
    "died": "firstDiedAt",
    "moved": "movedToDLQAt",
    "enqueued": "enqueuedAt",
    "payload": "originalData",
}
on_sqlite = pytest.mark.parametrize("bench", ["sqlite"], indirect=True)


@pytest.fixture
def sql(store: Store, index: Index) -> Sql:
    return make_office(store, index).acting(ANA).sql


async def test_the_runbooks_question_works_as_written(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, code=code) for code in ("550", "451", "550", None)])
    answer = await sql.ask("SELECT lastFailureCode, COUNT(*) FROM dlq GROUP BY lastFailureCode")
    assert answer.columns == ("lastFailureCode", "COUNT(*)")
    assert set(answer.rows) == {(None, 1), ("451", 1), ("550", 2)}
    assert answer.complete


@pytest.mark.parametrize("name", SAVED)
async def test_every_saved_question_has_an_answer(sql: Sql, store: Store, name: str) -> None:
    await bury(store, [letter(store, redriven=1)])
    assert len((await sql.ask(SAVED[name])).rows) == 1


async def test_a_row_says_what_the_letter_says_on_the_wire(sql: Sql, store: Store) -> None:
    letters = [
        letter(
            store,
            body=b'{"n": "\xc3\xa9"}',
            attempts=3,
            redriven=2,
            first_age_ms=3_600_000,
            kind=Kind.TEMPORARY,
            reason=Reason.EXHAUSTED,
        ),
        letter(store, body=b"\xff raw", kind=None, code=None, reason=Reason.POISON, age_ms=1_234_567),
        letter(store, body=b'{"n": "\xff"}', tenant="umbra", queue="orders"),
    ]
    await bury(store, letters)
    answer = await sql.ask("SELECT * FROM dlq ORDER BY jobId", reveal=True)
    for row, written in zip(answer.rows, letters, strict=True):
        told = dict(zip(answer.columns, row, strict=True))
        document = msgspec.to_builtins(letter_document(written, UNMASKED, WEEK_MS))
        again = told.pop("redied")
        assert again == (document["movedToDLQAt"] if written.died_again else None)
        for ours, wire in OURS.items():
            assert told.pop(ours) == told[wire]
        assert json.loads(str(told.pop("originalData"))) == document["originalData"]
        assert told.pop("kind") == (written.failures[-1].kind if written.failures else None)
        assert told.pop("redriven") == len(written.redrives)
        assert told == {name: document[name] for name in told}


async def test_payloads_can_be_asked_about(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, body=b'{"order": {"id": %d}, "tags": ["a", "b"]}' % n) for n in (7, 8)])
    answer = await sql.ask(
        "SELECT originalData->>'$.order.id', value FROM dlq, json_each(originalData, '$.tags')"
        " WHERE originalData->>'$.order.id' > 7"
    )
    assert answer.rows == ((8, "a"), (8, "b"))


async def test_payloads_can_be_left_masked(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, body=b'{"to": "ana@example.com"}')])
    answer = await sql.ask("SELECT originalData FROM dlq")
    assert answer.rows == (('{"to": "***@example.com"}',),)


async def test_only_the_scopes_letters_are_in_the_copy(store: Store, index: Index) -> None:
    await bury(store, [letter(store, tenant=tenant) for tenant in ("acme", "umbra", "umbra")])
    answer = (
        await make_office(store, index)
        .acting(ANA, "acme")
        .sql.ask("SELECT companyId FROM dlq WHERE companyId <> 'x' OR 1")
    )
    assert answer.rows == (("acme",),)
    assert (answer.copied.letters, answer.copied.of) == (1, 1)


@on_sqlite
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("DELETE FROM dlq", "DELETE"),
        ("UPDATE dlq SET jobId = 1", "UPDATE"),
        ("INSERT INTO dlq (jobId) VALUES (1)", "INSERT"),
        ("DROP TABLE dlq", "only SELECT"),
        ("CREATE TABLE x (y)", "only SELECT"),
        ("CREATE TEMP TABLE x AS SELECT * FROM dlq", "only SELECT"),
        ("PRAGMA user_version", "PRAGMA"),
        ("SELECT * FROM pragma_database_list", "pragma_database_list"),
        ("SELECT count(*) FROM pragma_database_list", "pragma_database_list"),
        ("ATTACH '/etc/passwd' AS x", "ATTACH"),
        ("VACUUM INTO '/nowhere/x'", "no SELECT"),
        ("BEGIN", "TRANSACTION"),
        ("SELECT sql FROM sqlite_schema", "no table sqlite_master"),
        ("SELECT count(*) FROM sqlite_schema", "no table sqlite_schema"),
        ("SELECT * FROM letters", "no such table"),
        ("SELECT * FROM source.letters", "no such table"),
        ("SELECT load_extension('x')", "load_extension"),
        ("SELECT randomblob(1000000000)", "randomblob"),
        ("SELECT original_data(x'00')", "original_data"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", "recursive"),
        ("SELECT 1; SELECT 2", "second statement"),
        ("SELECT 1; DROP TABLE dlq", ""),
        ("", "no SELECT"),
        ("-- nothing", "no SELECT"),
        ("SELECT \ud800", "broken Unicode"),
        ("SELECT " + "1," * 20_000 + "1", "longer than"),
        ("SELECT 1" + "+1" * 200, "depth"),
        ("SELECT * FROM dlq WHERE ?", "bindings"),
    ],
)
async def test_what_is_more_than_a_question_is_refused(sql: Sql, store: Store, text: str, what: str) -> None:
    with pytest.raises(SqlError) as caught:
        await sql.ask(text)
    assert what in caught.value.problem
    assert caught.value.advice


@on_sqlite
@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SELECT jobId frm dlq WHERE", 17),
        ("SELECT nonsense FROM dlq", 7),
        ("SELECT 'é', nonsense FROM dlq", 12),
        ("SELECT 1; SELECT 2", 10),
    ],
)
async def test_an_error_has_the_place_where_it_is(sql: Sql, text: str, position: int) -> None:
    with pytest.raises(SqlError) as caught:
        await sql.ask(text)
    assert caught.value.position == position
    assert f"character {position + 1}" in str(caught.value)


@on_sqlite
async def test_a_comment_after_the_statement_is_no_second_one(sql: Sql) -> None:
    assert (await sql.ask("SELECT 1 AS one; -- that is all")).rows == ((1,),)


@on_sqlite
async def test_a_question_without_an_end_is_stopped(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store) for _ in range(300)])
    began_s = time.monotonic()
    with pytest.raises(SqlError, match=r"longer than 0\.2 s"):
        await sql.ask("SELECT count(*) FROM dlq a, dlq b, dlq c, dlq d", limits=SqlLimits(time_s=0.2))
    assert time.monotonic() - began_s < 5


@on_sqlite
async def test_a_question_that_takes_too_much_memory_is_stopped(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store) for _ in range(500)])
    with pytest.raises(SqlError, match="memory"):
        await sql.ask(
            "SELECT a.jobId || b.jobId AS x FROM dlq a, dlq b ORDER BY x",
            limits=SqlLimits(memory_bytes=4_000_000),
        )


@on_sqlite
async def test_a_value_cannot_grow_without_end(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, body=json.dumps("x" * 9_000).encode()) for _ in range(200)])
    with pytest.raises(SqlError, match="too big"):
        await sql.ask("SELECT group_concat(originalData) FROM dlq")


async def test_rows_beyond_the_limit_are_cut_and_the_answer_says_so(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store) for _ in range(5)])
    answer = await sql.ask("SELECT jobId FROM dlq", limits=SqlLimits(rows=3))
    assert (len(answer.rows), answer.more, answer.complete) == (3, True, False)
    assert not (await sql.ask("SELECT jobId FROM dlq", limits=SqlLimits(rows=5))).more


@on_sqlite
async def test_an_answer_that_is_too_long_is_cut_and_says_so(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, why="x" * 500) for _ in range(5)])
    answer = await sql.ask("SELECT lastFailureReason FROM dlq", limits=SqlLimits(result_bytes=1_200))
    assert (len(answer.rows), answer.more) == (2, True)


async def test_a_copy_has_the_newest_letters_and_says_how_many_were_left_out(sql: Sql, store: Store) -> None:
    ids = await bury(store, [letter(store, age_ms=age * MINUTE_MS) for age in (3, 2, 1)])
    answer = await sql.ask("SELECT jobId FROM dlq", limits=SqlLimits(letters=2))
    assert {row[0] for row in answer.rows} == set(ids[1:])
    assert (answer.copied.letters, answer.copied.of, answer.complete) == (2, 3, False)


@on_sqlite
async def test_payloads_that_do_not_fit_are_left_out_from_the_oldest_on(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, age_ms=age, body=b'"%s"' % (b"x" * 998)) for age in range(10)])
    few = SqlLimits(payload_bytes=4_500)
    assert (await sql.ask("SELECT originalData FROM dlq", limits=few)).copied.letters == 4
    assert (await sql.ask("SELECT jobId FROM dlq", limits=few)).copied.letters == 10


@on_sqlite
async def test_a_very_large_payload_is_replaced_by_its_size(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, body=b'"%s"' % (b"x" * 300_000))])
    ((value,),) = (await sql.ask("SELECT originalData FROM dlq")).rows
    assert json.loads(str(value)) == {"leftOut": "300002 bytes"}


@on_sqlite
async def test_an_answer_can_be_written_as_json(sql: Sql) -> None:
    answer = await sql.ask("SELECT x'00ff', 9e999, -9e999, NULL, 1, 1.5, 'a'")
    assert answer.rows == (("00ff", "inf", "-inf", None, 1, 1.5, "a"),)
    json.dumps(answer.rows, allow_nan=False)


async def test_a_question_without_rows_still_names_its_columns(sql: Sql) -> None:
    answer = await sql.ask("SELECT jobId, queue AS q FROM dlq")
    assert (answer.columns, answer.rows) == (("jobId", "q"), ())


async def test_every_question_is_in_the_audit_also_a_refused_one(sql: Sql, store: Store) -> None:
    await sql.ask("SELECT 1")
    with pytest.raises(SqlError):
        await sql.ask("DROP TABLE dlq")
    rows = [row.document for row in await store.read_journal(AUDIT)]
    assert [(row["verb"], row["row"], row.get("ok")) for row in rows] == [
        ("sql", "intent", None),
        ("sql", "outcome", True),
        ("sql", "intent", None),
        ("sql", "outcome", False),
    ]
    assert rows[2]["subject"]["text"] == "DROP TABLE dlq"


async def test_columns_have_our_names_too(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, body=b'{"n": 7}')])
    for ours, wire in OURS.items():
        (found,) = (await sql.ask(f"SELECT {ours} FROM dlq")).rows  # noqa: S608 - one of ours
        (on_wire,) = (await sql.ask(f"SELECT {wire} FROM dlq")).rows  # noqa: S608 - likewise
        assert found == on_wire != (None,)


async def test_our_names_are_masked_as_those_of_the_wire(sql: Sql, store: Store) -> None:
    await bury(store, [letter(store, why="to ana@example.com", body=b'{"password": "hunter2"}')])
    answer = await sql.ask("SELECT failure, payload FROM dlq")
    assert "ana" not in str(answer.rows)
