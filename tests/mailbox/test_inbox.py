"""What the mailbox keeps, finds and waits for, in memory and in a folder."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from redrive.core.errors import ConfigurationError, RedriveError
from redrive.mailbox import Mailbox, MailboxSettings, Received, folder
from redrive.mailbox.content import read_headers
from redrive.mailbox.inbox import Inbox
from redrive.mailbox.memory import Bounded
from tests.mailbox.clients import CONTENT, content, raw_client


def keep(inbox: Inbox, body: bytes = CONTENT, *recipients: str) -> Received:
    return inbox.keep("a@x", recipients or ("ok@x",), read_headers(body), body)


def files(path: Path) -> list[str]:
    return sorted(file.name for file in path.glob("*.eml"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (None, "", None)),
        (b"Subject: a\r\n\r\nMessage-ID: <in the body>\r\n", (None, "a", None)),
        (b"MESSAGE-ID:<1@x>\r\nX-Redrive-Tenant: acme\r\n\r\n", ("<1@x>", "", "acme")),
        (b"Subject: one\r\nSubject: two\r\n\r\n", (None, "one", None)),
        (b"Message-ID:\r\n <folded@x>\r\nSubject: a\r\n\tb\r\n\r\n", ("<folded@x>", "a\tb", None)),
        (b"Subject: =?utf-8?q?gr=C3=BC=C3=9Fe?=\r\n\r\n", (None, "grüße", None)),
        (b"Subject: =?nonsense?q?a?=\r\n\r\n", (None, "=?nonsense?q?a?=", None)),
        (b"Subject: =?utf-8?b?a?=\r\n\r\n", (None, "=?utf-8?b?a?=", None)),
        (b"Subject: \xff\r\n\r\n", (None, "�", None)),
        (b"Not-Subject: a\r\nX: Subject: b\r\n\r\n", (None, "", None)),
    ],
)
def test_headers_are_read_where_there_are_any(
    body: bytes, expected: tuple[str | None, str, str | None]
) -> None:
    headers = read_headers(body)
    assert (headers.message_id, headers.subject, headers.tenant) == expected


def test_the_oldest_mails_and_attempts_go_when_there_are_too_many() -> None:
    inbox = Inbox(MailboxSettings(keep_messages=3))
    for number in range(10):
        keep(inbox, content(f"{number}@x"))
    assert [mail.id for mail in inbox.received] == [8, 9, 10]
    assert inbox.total == 10


def test_the_oldest_mails_go_when_they_are_too_large_but_never_the_newest() -> None:
    inbox = Inbox(MailboxSettings(keep_bytes=1_000))
    for number in range(10):
        keep(inbox, content(f"{number}@x") + b"x" * 400)
    assert [mail.id for mail in inbox.received] == [9, 10]
    keep(inbox, b"x" * 5_000)
    assert [mail.id for mail in inbox.received] == [11]


async def test_attempts_are_bounded() -> None:
    async with Mailbox(settings=MailboxSettings(keep_attempts=2)) as mailbox, raw_client(mailbox) as client:
        await client.say("MAIL FROM:<a@x>")
        for number in range(5):
            await client.say(f"RCPT TO:<full+{number}@x>")
        assert [attempt.recipient for attempt in mailbox.attempts] == ["full+3@x", "full+4@x"]
        assert len(await mailbox.wait_for_attempts(5)) == 2


def test_a_duplicate_has_the_same_message_id_and_a_common_recipient() -> None:
    inbox = Inbox(MailboxSettings(keep_messages=1))
    keep(inbox, CONTENT, "ok@x", "other@x")
    assert keep(inbox, CONTENT, "third@x").duplicate_of is None
    assert keep(inbox, CONTENT, "fourth@x", "OTHER@x").duplicate_of == 1
    assert keep(inbox, content("2@x"), "Mixed@x").duplicate_of is None
    assert keep(inbox, content("2@x"), "mixed@x").duplicate_of == 4
    assert keep(inbox, b"Subject: no id\r\n\r\n").duplicate_of is None
    assert keep(inbox, b"Subject: no id\r\n\r\n").duplicate_of is None
    assert inbox.duplicates == 2


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first() -> None:
    memory: Bounded[str, int] = Bounded(2)
    for number, key in enumerate(["a", "b", "b", "c"]):
        memory.put(key, number)
    assert (len(memory), memory.get("a"), memory.get("b"), memory.get("c")) == (2, None, 2, 3)


def test_mails_are_found_by_recipient_and_words_of_the_subject() -> None:
    inbox = Inbox(MailboxSettings())
    keep(inbox, content("1@x", "Welcome to us"), "ok+1@x")
    keep(inbox, content("2@x", "Goodbye"), "ok+2@x", "ok+1@x")
    assert [mail.id for mail in inbox.find("OK+1@x", None)] == [1, 2]
    assert [mail.id for mail in inbox.find("ok+1@x", "Welcome")] == [1]
    assert [mail.id for mail in inbox.find(None, "bye")] == [2]
    assert inbox.find("ok@x", None) == []


async def test_waiting_in_vain_says_what_came() -> None:
    async with Mailbox() as mailbox:
        with pytest.raises(TimeoutError, match=r"0 of 1 mails came to smtp://.* nobody tried"):
            await mailbox.wait_for(1, timeout_s=0)
        async with raw_client(mailbox) as client:
            await client.envelope("full@x")
        with pytest.raises(TimeoutError, match=r"1 of 2 attempts .* got '452 4\.2\.2 mailbox full'"):
            await mailbox.wait_for_attempts(2, timeout_s=0)


async def test_clear_forgets_mails_attempts_and_earlier_tries(tmp_path: Path) -> None:
    async with Mailbox(folder=tmp_path) as mailbox, raw_client(mailbox) as client:
        await client.deliver("fail-1-then-ok@x")
        await client.deliver("fail-1-then-ok@x")
        mailbox.clear()
        assert (mailbox.total, mailbox.received, mailbox.attempts) == (0, (), ())
        assert folder.latest(tmp_path) == []
        assert files(tmp_path) == []
        assert (await client.deliver("fail-1-then-ok@x")).startswith("451")
        assert await client.deliver("ok@x") == "250 2.0.0 kept as 2"
        assert mailbox.received[0].duplicate_of is None


async def test_a_folder_is_read_by_others_and_goes_on_when_reopened(tmp_path: Path) -> None:
    async with Mailbox(folder=tmp_path / "mails") as mailbox, raw_client(mailbox) as client:
        await client.deliver("ok@x")
        await client.deliver("ok+2@x", content("2@x", "second"))
        first = mailbox.received
        assert tuple(folder.latest(tmp_path / "mails")) == first
        assert folder.latest(tmp_path / "mails", 1) == [first[1]]
        assert folder.find(tmp_path / "mails", 2) == first[1]
        assert folder.find(tmp_path / "mails", 3) is None
    async with Mailbox(folder=tmp_path / "mails") as mailbox, raw_client(mailbox) as client:
        assert mailbox.received == first
        assert await client.deliver("ok@x") == "250 2.0.0 kept as 3"
        assert mailbox.received[2].duplicate_of == 1
    line = json.loads((tmp_path / "mails" / "index.jsonl").read_text().splitlines()[1])
    assert (line["id"], line["messageId"], line["duplicateOf"]) == (2, "<2@x>", None)
    assert (tmp_path / "mails" / "00000002.eml").read_bytes() == content("2@x", "second")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert folder.latest(tmp_path / "none") == []
    assert folder.find(tmp_path / "none", 1) is None
    assert not (tmp_path / "none").exists()


def test_a_torn_index_and_a_missing_file_cost_only_what_they_tore(tmp_path: Path) -> None:
    inbox = Inbox(MailboxSettings(), tmp_path)
    for number in range(3):
        keep(inbox, content(f"{number}@x"))
    inbox.close()
    (tmp_path / "00000002.eml").unlink()
    with (tmp_path / "index.jsonl").open("ab") as index:
        index.write(b'{"id": 4, "at"')
    inbox = Inbox(MailboxSettings(), tmp_path)
    keep(inbox)
    inbox.close()
    assert [mail.id for mail in folder.latest(tmp_path)] == [1, 3, 4]


def test_a_folder_is_bounded_and_its_index_is_written_anew(tmp_path: Path) -> None:
    inbox = Inbox(MailboxSettings(keep_messages=5), tmp_path)
    for number in range(2_500):
        keep(inbox, content(f"{number}@x"))
    inbox.close()
    assert len(files(tmp_path)) == 5
    assert len((tmp_path / "index.jsonl").read_bytes().splitlines()) < 1_100
    assert [mail.id for mail in folder.latest(tmp_path)] == [2496, 2497, 2498, 2499, 2500]


def test_a_smaller_bound_holds_for_a_reopened_folder(tmp_path: Path) -> None:
    inbox = Inbox(MailboxSettings(), tmp_path)
    for number in range(5):
        keep(inbox, content(f"{number}@x"))
    inbox.close()
    inbox = Inbox(MailboxSettings(keep_messages=2), tmp_path)
    assert [mail.id for mail in inbox.received] == [4, 5]
    inbox.close()
    assert len(files(tmp_path)) == 2


async def test_two_mailboxes_do_not_share_a_folder(tmp_path: Path) -> None:
    async with Mailbox(folder=tmp_path):
        with pytest.raises(RedriveError, match="another mailbox uses the folder"):
            await Mailbox(folder=tmp_path).open()
    async with Mailbox(folder=tmp_path):
        pass


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot use the folder .*file"):
        await Mailbox(folder=tmp_path / "file").open()


async def test_a_mail_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with Mailbox(folder=tmp_path) as mailbox, raw_client(mailbox) as client:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            assert (await client.deliver("ok@x")).startswith("452 4.3.1")
            assert mailbox.total == 0
            assert await client.deliver("drop-after-dot@x") != ""
        with monkeypatch.context() as patch:
            write = os.write
            patch.setattr(os, "write", lambda file, line: write(file, line[:10]))
            assert (await client.deliver("ok@x")).startswith("452 4.3.1")
        assert await client.deliver("ok@x") == "250 2.0.0 kept as 1"
    assert [mail.id for mail in folder.latest(tmp_path)] == [1]


def test_mails_on_disk_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        inbox = Inbox(MailboxSettings(), tmp_path / "data" / "mailbox")
        keep(inbox, content("1@x"))
        inbox.close()
    finally:
        os.umask(before)
    made = [tmp_path / "data", tmp_path / "data" / "mailbox"]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made[1].iterdir()} == {0o600}
