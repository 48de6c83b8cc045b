"""Archives: what is read is what was written, and a file that is not whole moves nothing."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import resource
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.letters import DeadLetter, Redriven, RedriveResult
from redrive.core.ports import APPEND_BYTES, PAGE
from redrive.office.archive.lines import ArchiveError, decode, encode, from_letter, to_letter
from redrive.office.archive.reader import archive_pages, check_archive, read_archive
from redrive.office.archive.writer import ArchiveWriter
from tests.office.letters import child, letter, letters

Lines = list[bytes]


def written(folder: Path, given_letters: Sequence[DeadLetter]) -> Path:
    writer = ArchiveWriter(folder, store="sqlite:///x.db", queue="orders", made_at=1_700_000_000_000)
    writer.add(given_letters)
    return writer.finish().path


def rewrite(path: Path, change: Callable[[Lines], Lines]) -> None:
    path.write_bytes(gzip.compress(b"".join(change(gzip.decompress(path.read_bytes()).splitlines(True)))))


def sealed(lines: Lines) -> Lines:
    """The lines with a trailer that is right for them."""
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    trailer = {"line": "trailer", "count": len(lines) - 2, "sha256": digest}
    return [*lines[:-1], json.dumps(trailer).encode() + b"\n"]


@given(letters)
def test_a_letter_comes_back_from_its_line_as_it_was(one: DeadLetter) -> None:
    line = decode(encode(from_letter(one)))
    assert to_letter(line) == one  # type: ignore[arg-type]


@given(st.binary(max_size=200))
def test_any_line_is_read_or_refused(text: bytes) -> None:
    with suppress(ArchiveError):
        decode(text)


def test_an_archive_gives_back_what_was_written(tmp_path: Path) -> None:
    made = [
        letter(number, body=body) for number, body in enumerate([b"{}", b"\xff\x00raw", b"", "é".encode()])
    ]
    path = written(tmp_path, made)
    assert list(read_archive(path)) == made
    assert check_archive(path).count == 4


def test_what_letters_share_is_written_once_and_again_when_a_reader_has_forgotten_it(tmp_path: Path) -> None:
    near = [child(number, number % 3, shared=b"mail %d" % (number % 3)) for number in range(12)]
    far = [child(number, 50 + number % 20, shared=b"\xff %d" % (number % 20)) for number in range(40)]
    mixed = [letter(99), *near, *far, letter(98)]
    path = written(tmp_path, mixed)
    assert list(read_archive(path)) == mixed
    lines = gzip.decompress(path.read_bytes()).splitlines()
    assert sum(b'"line":"shared"' in line for line in lines) == 3 + 40


def test_nobody_else_may_read_an_archive_and_nothing_else_is_left_in_its_folder(tmp_path: Path) -> None:
    path = written(tmp_path / "new" / "folder", [letter()])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_person_can_check_an_archive_with_plain_tools(tmp_path: Path) -> None:
    *lines, last = gzip.decompress(written(tmp_path, [letter(1), letter(2)]).read_bytes()).splitlines(True)
    trailer = json.loads(last)
    assert (trailer["count"], trailer["sha256"]) == (2, hashlib.sha256(b"".join(lines)).hexdigest())
    head = json.loads(lines[0])
    assert (head["format"], head["queue"], head["store"]) == ("redrive letters", "orders", "sqlite:///x.db")


def test_an_archive_of_the_first_version_is_read(tmp_path: Path) -> None:
    made = [letter(1), letter(2)]
    path = written(tmp_path, made)
    rewrite(path, lambda lines: sealed([lines[0].replace(b'"version":4', b'"version":1'), *lines[1:]]))
    assert list(read_archive(path)) == made


def test_a_first_death_that_an_older_archive_does_not_name_is_told_from_the_history(tmp_path: Path) -> None:
    once = letter(1)
    failed = replace(once.failures[0], at=900)
    redriven = Redriven(500, 1, "ann", None, RedriveResult.DEAD)
    twice = replace(once, died_at=901, failures=(*once.failures, failed), redrives=(redriven,))
    path = written(tmp_path, [once, twice])
    known = re.compile(rb',"(firstDiedAt|durationMs|delayMs|delayAsked)":[a-z0-9]+')
    rewrite(
        path,
        lambda lines: sealed(
            [lines[0].replace(b'"version":4', b'"version":2'), *(known.sub(b"", one) for one in lines[1:])]
        ),
    )
    assert [(one.first_died_at, one.died_at) for one in read_archive(path)] == [(1, 1), (0, 901)]


async def test_pages_count_what_their_letters_share_once(tmp_path: Path) -> None:
    large = b"x" * (APPEND_BYTES // 2)
    path = written(tmp_path, [child(number, number // 3, shared=large) for number in range(9)])
    assert [len(page) async for page in archive_pages(path)] == [4, 3, 2]


async def test_pages_are_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, [letter(number) for number in range(PAGE + 1)])
    assert [len(page) async for page in archive_pages(path)] == [PAGE, 1]


BREAKS: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "a changed body": (lambda lines: [lines[0], lines[1].replace(b"acme", b"acne"), *lines[2:]], "changed"),
    "a missing letter": (lambda lines: [*lines[:2], *lines[3:]], "1 letters, its trailer says 2"),
    "a letter twice": (lambda lines: [*lines[:3], *lines[2:]], "3 letters, its trailer says 2"),
    "letters in another order": (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "changed"),
    "no trailer": (lambda lines: lines[:-1], "ends without its trailer"),
    "no header": (lambda lines: sealed(lines[1:]), "line 1: the header is the first line"),
    "two headers": (lambda lines: sealed([lines[0], *lines]), "line 2: the header is the first line"),
    "more after the trailer": (lambda lines: [*lines, lines[1]], "line 5: there is more after the trailer"),
    "a line without its end": (
        lambda lines: [*lines[:-1], lines[-1].rstrip()],
        "line 4: the line has no end",
    ),
    "a line that is no JSON": (lambda lines: sealed([*lines[:2], b"{\n", lines[3]]), "line 3"),
    "a body in no base64": (
        lambda lines: sealed(
            [lines[0], lines[1].replace(b'"base64":null', b'"base64":"*"'), *lines[2:]],
        ),
        "line 2",
    ),
    "a later version": (
        lambda lines: sealed([lines[0].replace(b'"version":4', b'"version":5'), *lines[1:]]),
        "use the version that wrote it",
    ),
    "a field of another version": (
        lambda lines: sealed([lines[0], lines[1].replace(b'"crashes"', b'"scars":1,"crashes"'), *lines[2:]]),
        "line 2",
    ),
    "a name that is none": (
        lambda lines: sealed([lines[0], lines[1].replace(b"bounced", b"x"), *lines[2:]]),
        "2",
    ),
    "a queue that could not be": (
        lambda lines: sealed([lines[0], lines[1].replace(b'"orders"', b'"or{d}ers"'), *lines[2:]]),
        "line 2: queue 'or{d}ers' is not a name",
    ),
    "nothing at all": (lambda _: [], "ends without its trailer"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_an_archive_that_is_not_whole_gives_no_letter_and_says_where(tmp_path: Path, name: str) -> None:
    change, expected = BREAKS[name]
    path = written(tmp_path, [letter(1), letter(2)])
    rewrite(path, change)
    with pytest.raises(ArchiveError) as refused:
        next(read_archive(path))
    assert expected in str(refused.value)
    assert str(path) in str(refused.value)
    assert "nothing was moved" in str(refused.value)


def test_a_file_cut_anywhere_gives_no_letter(tmp_path: Path) -> None:
    path = written(tmp_path, [letter(number) for number in range(5)])
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ArchiveError):
            next(read_archive(path))


def test_a_file_with_any_byte_changed_gives_no_letter_or_the_same(tmp_path: Path) -> None:
    made = [letter(number) for number in range(3)]
    path = written(tmp_path, made)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert list(read_archive(path)) == made, place
        except ArchiveError:
            continue


def test_an_endless_line_is_refused_before_it_fills_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.office.archive.reader.LINE_BYTES", 10_000)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"{" * 1_000_000))
    with pytest.raises(ArchiveError, match="no end"):
        check_archive(path)


@pytest.mark.parametrize("name", ["missing.jsonl.gz", "."])
def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="cannot read"):
        check_archive(tmp_path / name)


def test_a_folder_that_cannot_be_written_to_is_said_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="nothing left the store"):
        written(tmp_path / "file" / "folder", [letter()])


def test_a_disk_that_fills_up_is_said_and_leaves_no_file(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(ArchiveError, match="nothing left the store"):
            written(tmp_path, [letter(body=os.urandom(1_000_000))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_behind_goes_after_a_day(tmp_path: Path) -> None:
    crashed = [tmp_path / f"letters-a-{name}.jsonl.gz.partial" for name in ("old", "new")]
    for path in crashed:
        path.write_bytes(b"")
    os.utime(crashed[0], (0, 0))
    path = written(tmp_path, [letter()])
    assert set(tmp_path.iterdir()) == {path, crashed[1]}
