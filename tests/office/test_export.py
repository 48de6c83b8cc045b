"""Export: every letter once, in JSON lines or CSV, masked unless asked for, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given

from redrive.core.letters import DeadLetter
from redrive.office.export import COLUMNS, Export, Format
from redrive.office.masking import UNMASKED, Mask
from tests.office.letters import letter, letters

BODY = b'{"to": "ann@example.org", "password": "hunter2", "taxId": "DE1", "n": 7}'
WEEK_MS = 7 * 86_400_000


def exported(form: Export, *made: DeadLetter) -> bytes:
    return form.head() + b"".join(form.rows([one]) for one in made)


def rows(text: bytes) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text.decode("utf-8"), newline="")))


def failing(reason: str, code: str | None = "550") -> DeadLetter:
    made = letter()
    return replace(made, failures=(replace(made.failures[0], reason=reason, code=code),))


def test_json_lines_carry_the_names_of_the_dead_letter_entry() -> None:
    (line,) = exported(Export(Format.JSONL, UNMASKED, WEEK_MS), letter(body=BODY)).splitlines()
    document = json.loads(line)
    assert document["originalData"] == json.loads(BODY)
    assert (document["companyId"], document["lastFailureCode"]) == ("acme", "550")
    assert document["failures"][0]["traceback"] == "Traceback: x"
    assert set(COLUMNS) - {"redriven"} <= document.keys()


def test_csv_has_one_row_a_letter_and_its_payload_as_json() -> None:
    first, second = rows(exported(Export(Format.CSV, UNMASKED, WEEK_MS), letter(1, body=BODY), letter(2)))
    assert list(first) == list(COLUMNS)
    assert json.loads(first["originalData"]) == json.loads(BODY)
    assert (second["jobId"], second["redriven"]) == (letter(2).message.id, "0")


@pytest.mark.parametrize("form", Format)
def test_payloads_are_masked_unless_asked_for(form: Format) -> None:
    made = replace(letter(body=BODY), failures=failing("no mailbox ann@example.org").failures)
    masked = exported(Export(form, Mask.parse("tax_id, x"), WEEK_MS), made).decode()
    shown = exported(Export(form, UNMASKED, WEEK_MS), made).decode()
    for secret in ("hunter2", "ann@", "DE1"):
        assert secret not in masked
        assert secret in shown
    assert "***@example.org" in masked


def test_a_payload_that_is_not_json_is_masked_whole() -> None:
    (line,) = exported(Export(Format.JSONL, Mask(), WEEK_MS), letter(body=b"\xffsecret")).splitlines()
    assert json.loads(line)["originalData"] == {"base64": "***"}


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r=", "\x1b[0m=", "\x00="])
def test_no_cell_begins_like_a_formula(begin: str) -> None:
    danger = f"{begin}cmd|' /C calc'!A0"
    made = failing("x", code=danger)
    made = replace(made, message=msgspec.structs.replace(made.message, tenant=danger), fingerprint=danger)
    (row,) = rows(exported(Export(Format.CSV, UNMASKED, WEEK_MS), made))
    for column in ("companyId", "fingerprint", "lastFailureCode"):
        assert row[column].startswith(("'", "?")), column
    assert "\x1b" not in row["companyId"]


@given(letters)
def test_any_letter_is_one_line_of_json_and_one_row_of_csv(made: DeadLetter) -> None:
    for mask in (UNMASKED, Mask()):
        text = Export(Format.JSONL, mask, WEEK_MS).rows([made]).decode("ascii")
        assert text.count("\n") == 1
        json.loads(text, parse_constant=pytest.fail)
        form = Export(Format.CSV, mask, WEEK_MS)
        (row,) = rows(form.head() + form.rows([made]))
        assert all(cell is not None and not cell.startswith(("=", "+", "-", "@")) for cell in row.values())


@pytest.mark.parametrize("body", [b"NaN", b'{"a": 1e999}', b"[-Infinity]"])
def test_a_body_that_json_cannot_write_again_is_exported_as_bytes(body: bytes) -> None:
    (line,) = exported(Export(Format.JSONL, UNMASKED, WEEK_MS), letter(body=body)).splitlines()
    assert list(json.loads(line)["originalData"]) == ["base64"]
