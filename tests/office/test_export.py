"""Export: every letter once, in JSON lines or CSV, masked unless asked for, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from redrive.core.letters import DeadLetter
from redrive.office.archive.lines import ArchiveError
from redrive.office.export import COLUMNS, Export, Format, export, export_to_file
from redrive.office.masking import Mask
from tests.office.letters import letter, letters

BODY = b'{"to": "ann@example.org", "password": "hunter2", "taxId": "DE1", "n": 7}'


async def pages(*made: DeadLetter) -> AsyncIterator[list[DeadLetter]]:
    for one in made:
        yield [one]


async def exported(form: Export, *made: DeadLetter) -> bytes:
    sink = io.BytesIO()
    assert await export(pages(*made), sink, form) == len(made)
    return sink.getvalue()


def rows(text: bytes) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text.decode("utf-8"), newline="")))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def failing(reason: str, code: str | None = "550") -> DeadLetter:
    made = letter()
    return replace(made, failures=(replace(made.failures[0], reason=reason, code=code),))


async def test_json_lines_carry_the_names_of_the_dead_letter_entry() -> None:
    (line,) = (await exported(Export(Format.JSON, None), letter(body=BODY))).splitlines()
    document = json.loads(line)
    assert document["originalData"] == json.loads(BODY)
    assert (document["companyId"], document["lastFailureCode"]) == ("acme", "550")
    assert document["failures"][0]["traceback"] == "Traceback: x"
    assert set(COLUMNS) - {"redriven"} <= document.keys()


async def test_csv_has_one_row_a_letter_and_its_payload_as_json() -> None:
    first, second = rows(await exported(Export(Format.CSV, None), letter(1, body=BODY), letter(2)))
    assert list(first) == list(COLUMNS)
    assert json.loads(first["originalData"]) == json.loads(BODY)
    assert (second["jobId"], second["redriven"]) == (letter(2).message.id, "0")


@pytest.mark.parametrize("form", Format)
async def test_payloads_are_masked_unless_asked_for(form: Format) -> None:
    made = replace(letter(body=BODY), failures=failing("no mailbox ann@example.org").failures)
    masked = (await exported(Export(form, Mask.parse("tax_id, x")), made)).decode()
    shown = (await exported(Export(form, None), made)).decode()
    for secret in ("hunter2", "ann@", "DE1"):
        assert secret not in masked
        assert secret in shown
    assert "***@example.org" in masked


async def test_a_payload_that_is_not_json_is_masked_whole() -> None:
    (line,) = (await exported(Export(Format.JSON, Mask()), letter(body=b"\xffsecret"))).splitlines()
    assert json.loads(line)["originalData"] == {"base64": "***"}


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r=", "\x1b[0m=", "\x00="])
async def test_no_cell_begins_like_a_formula(begin: str) -> None:
    danger = f"{begin}cmd|' /C calc'!A0"
    made = failing("x", code=danger)
    made = replace(made, message=replace(made.message, tenant=danger), fingerprint=danger)
    (row,) = rows(await exported(Export(Format.CSV, None), made))
    for column in ("companyId", "fingerprint", "lastFailureCode"):
        assert row[column].startswith("'"), column
    assert "\x1b" not in row["companyId"]


@given(letters)
def test_any_letter_is_one_line_of_json_and_one_row_of_csv(made: DeadLetter) -> None:
    for mask in (None, Mask()):
        text = Export(Format.JSON, mask).rows([made]).decode("ascii")
        assert text.count("\n") == 1
        json.loads(text, parse_constant=pytest.fail)
        form = Export(Format.CSV, mask)
        (row,) = rows(form.head() + form.rows([made]))
        assert all(cell is not None and not cell.startswith(("=", "+", "-", "@")) for cell in row.values())


@pytest.mark.parametrize("body", [b"NaN", b'{"a": 1e999}', b"[-Infinity]"])
async def test_a_body_that_json_cannot_write_again_is_exported_as_bytes(body: bytes) -> None:
    (line,) = (await exported(Export(Format.JSON, None), letter(body=body))).splitlines()
    assert list(json.loads(line)["originalData"]) == ["base64"]


async def test_a_file_is_private_and_whole_and_tells_its_progress(tmp_path: Path) -> None:
    told: list[int] = []
    path = tmp_path / "letters.csv"
    made = (letter(1), letter(2))
    assert await export_to_file(pages(*made), path, Export(Format.CSV, Mask()), told.append) == 2
    assert (told, len(rows(path.read_bytes()))) == ([1, 2], 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == [path.name]


async def test_a_file_that_is_there_already_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "letters.csv"
    path.write_text("mine")
    with pytest.raises(ArchiveError, match="there is a file already"):
        await export_to_file(pages(letter()), path, Export(Format.CSV, None))
    assert path.read_text() == "mine"


async def test_an_export_that_fails_midway_leaves_no_file(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[list[DeadLetter]]:
        yield [letter()]
        raise RuntimeError("the store went away")

    with pytest.raises(RuntimeError):
        await export_to_file(broken(), tmp_path / "letters.jsonl", Export(Format.JSON, None))
    assert names(tmp_path) == []
