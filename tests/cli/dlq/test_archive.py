"""`dlq archive`, `restore` and `export`: letters into files, and back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shop


def test_what_was_archived_comes_back_as_it_was(shop: Shop) -> None:
    shop.bury("no", "--tenant", "acme")
    shop.bury("no", queue="email:send")
    before = shop.ok("dlq", "list", "--reveal")["letters"]
    archived = shop.ok("dlq", "archive", "--all", "--yes")
    assert (archived["archived"], len(archived["files"])) == (2, 2)
    assert shop.ok("dlq", "list")["letters"] == []
    for file in archived["files"]:
        assert shop.ok("dlq", "restore", file)["operation"]["moved"] == 1
    assert shop.ok("dlq", "list", "--reveal")["letters"] == before


def test_one_letter_is_archived_without_a_question_and_the_way_back_is_told(shop: Shop) -> None:
    message_id = shop.bury()
    result = shop("dlq", "archive", message_id, "--folder", "kept")
    assert result.out.startswith("1 archived\n")
    (file,) = (shop.folder / "kept").iterdir()
    assert f"redrive dlq restore {file}" in result.error
    assert shop.ok("show", message_id)["state"] == "removed"
    assert shop("dlq", "restore", str(file)).out == "1 restored\n"
    assert shop("dlq", "restore", str(file)).code == 3


def test_many_are_not_archived_without_yes_and_a_dry_run_changes_nothing(shop: Shop) -> None:
    shop.bury()
    shop.bury()
    assert shop("dlq", "archive", "--all").code == 2
    assert shop.ok("dlq", "archive", "--all", "--dry-run")["preview"]["count"] == 2
    assert len(shop.ok("dlq", "list")["letters"]) == 2
    assert shop("dlq", "archive", "unknown").code == 4


def test_an_altered_or_missing_archive_moves_nothing(shop: Shop) -> None:
    shop.bury()
    (name,) = shop.ok("dlq", "archive", "--all", "--yes")["files"]
    file = Path(name)
    file.write_bytes(file.read_bytes()[:-20])
    result = shop("dlq", "restore", name)
    assert result.code == 1
    assert "failed" in result.out
    assert shop.ok("dlq", "list")["letters"] == []
    assert shop("dlq", "restore", "nowhere.gz").code == 4


@pytest.mark.parametrize("name", ["letters.jsonl", "-"])
def test_json_lines_are_exported_to_a_file_or_standard_output(shop: Shop, name: str) -> None:
    message_id = shop.send({"permanent": "no", "password": "hunter2"}, "--tenant", "acme")
    shop.work()
    shop.bury("other", "--tenant", "globex")
    result = shop("dlq", "export", name, "--filter", "tenant:acme")
    assert result.code == 0, result.error
    text = result.out if name == "-" else (shop.folder / name).read_text("utf-8")
    (letter,) = map(json.loads, text.splitlines())
    assert (letter["jobId"], letter["originalData"]["password"]) == (message_id, "***")
    assert len(shop.ok("dlq", "list")["letters"]) == 2


def test_csv_is_chosen_by_the_ending_and_revealing_is_audited(shop: Shop) -> None:
    shop.send({"permanent": "=1+1", "password": "hunter2"})
    shop.work()
    assert shop("dlq", "export", "letters.csv", "--all", "--reveal").out == "1 exported\n"
    (row,) = csv.DictReader((shop.folder / "letters.csv").read_text("utf-8").splitlines())
    assert row["lastFailureReason"] == "'=1+1"
    assert "hunter2" in row["originalData"]
    (intent, *_) = shop.ok("audit", "--verb", "export")["rows"]
    assert intent["subject"]["order"]["reveal"] is True
    assert shop("dlq", "export", "-", "--all", "--reveal").code == 0
    assert len(shop.ok("audit", "--verb", "reveal")["rows"]) == 2


@pytest.mark.parametrize(("form", "begins"), [("jsonl", '{"jobId":'), ("csv", "jobId,outboxId,")])
@pytest.mark.parametrize("name", ["-", "letters.txt"])
def test_the_format_of_an_export_is_chosen_by_name(shop: Shop, name: str, form: str, begins: str) -> None:
    shop.bury()
    result = shop("dlq", "export", name, "--all", "--format", form)
    assert result.code == 0, result.error
    assert (result.out if name == "-" else (shop.folder / name).read_text()).startswith(begins)


def test_an_export_never_overwrites_a_file(shop: Shop) -> None:
    shop.bury()
    (shop.folder / "kept.csv").write_text("mine")
    result = shop("dlq", "export", "kept.csv", "--all")
    assert result.code == 1
    assert "there already" in result.error
    assert (shop.folder / "kept.csv").read_text() == "mine"


def test_a_file_that_is_no_archive_is_said_to_be_none(shop: Shop) -> None:
    shop.bury()
    (shop.folder / "notes.txt").write_text("nothing of the kind")
    result = shop("dlq", "restore", "notes.txt")
    assert result.code == 1
    assert "notes.txt is not an archive of dead letters; nothing was moved" in result.out
    assert "ArchiveError" not in result.out + result.error
