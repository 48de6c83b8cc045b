"""Keys: shown once, stored hashed, bound to a tenant, ended at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from redrive.core.errors import ConfigurationError, InvalidMessage
from redrive.core.grants import QueuePatterns, SenderDomains
from redrive.office.access import KEY_RECORDS, Access, Limits, Permission, Role, verify
from redrive.office.audit import AUDIT, Actor
from redrive.stores.sqlite import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "redrive.db")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def access(store: SqliteStore) -> Access:
    return Access(store, Actor("ana@host", "test"))


async def test_a_key_is_known_by_its_text_and_stored_only_as_a_hash(
    store: SqliteStore, access: Access
) -> None:
    credential, text = await access.create(Role.SUBMIT, "acme", "web shop")
    assert await verify(store, text) == credential
    record = await store.get_record(KEY_RECORDS, credential.id)
    assert record is not None
    assert text.split("_", 2)[2] not in str(record.document)
    journal = await store.read_journal(AUDIT)
    assert text not in str(journal)
    assert [row.document["row"] for row in journal] == ["intent", "outcome"]


@pytest.mark.parametrize("text", ["", "rdk_", "rdk_000000000000_" + "a" * 43, "x" * 10_000, "rdk_é"])
async def test_what_is_no_key_is_refused(store: SqliteStore, access: Access, text: str) -> None:
    await access.create(Role.ADMIN, None)
    assert await verify(store, text) is None


async def test_a_right_id_with_a_wrong_secret_is_refused(store: SqliteStore, access: Access) -> None:
    credential, text = await access.create(Role.ADMIN, None)
    assert await verify(store, f"rdk_{credential.id}_" + "A" * 43) is None
    assert await verify(store, text + "A") is None


async def test_a_revoked_key_ends_at_once_and_stays_listed(store: SqliteStore, access: Access) -> None:
    credential, text = await access.create(Role.VIEWER, None)
    assert await access.revoke(credential.id)
    assert await verify(store, text) is None
    assert [one.revoked_at is None for one in await access.list(ended=True)] == [False]
    assert await access.list() == []
    assert not await access.revoke("000000000000")


async def test_a_key_that_is_revoked_again_keeps_its_first_instant(
    store: SqliteStore, access: Access
) -> None:
    credential, _ = await access.create(Role.VIEWER, None)
    first = await access.revoke(credential.id)
    store.skew_ms += 3_600_000
    assert first is not None
    assert await access.revoke(credential.id) == first
    results = [row.document["result"] for row in await store.read_journal(AUDIT) if "result" in row.document]
    assert results[1:] == [{"revoked": True}, {"revoked": False, "revokedAt": first.revoked_at}]


async def test_of_two_who_revoke_a_key_at_once_one_did(store: SqliteStore, access: Access) -> None:
    credential, _ = await access.create(Role.VIEWER, None)
    await asyncio.gather(*(access.revoke(credential.id) for _ in range(5)))
    results = [row.document["result"] for row in await store.read_journal(AUDIT) if "result" in row.document]
    assert sorted(result["revoked"] for result in results[1:]) == [False] * 4 + [True]


async def test_a_submit_key_needs_a_tenant_with_a_name(access: Access) -> None:
    with pytest.raises(ConfigurationError, match="tenant"):
        await access.create(Role.SUBMIT, None)
    with pytest.raises(InvalidMessage):
        await access.create(Role.SUBMIT, "a b")


@pytest.mark.parametrize(
    ("role", "granted"),
    [
        (Role.SUBMIT, {Permission.SUBMIT}),
        (Role.VIEWER, {Permission.READ}),
        (Role.OPERATOR, {Permission.READ, Permission.REVEAL, Permission.OPERATE}),
        (Role.ADMIN, {Permission.READ, Permission.REVEAL, Permission.OPERATE, Permission.ADMINISTER}),
    ],
)
async def test_a_role_has_exactly_its_permissions(
    access: Access, role: Role, granted: set[Permission]
) -> None:
    credential, _ = await access.create(role, "acme")
    assert {permission for permission in Permission if credential.may(permission)} == granted
    assert credential.sees("acme")
    assert not credential.sees("globex")


@pytest.mark.parametrize(
    ("role", "reveal"), [(Role.VIEWER, True), (Role.OPERATOR, False), (Role.ADMIN, False)]
)
async def test_revealing_is_a_right_of_its_own(
    store: SqliteStore, access: Access, role: Role, reveal: bool
) -> None:
    _, text = await access.create(role, None, limits=Limits(reveal=reveal))
    known = await verify(store, text)
    assert known is not None
    assert known.may(Permission.REVEAL) is reveal
    assert known.may(Permission.READ)


async def test_a_key_from_before_these_rights_has_what_its_role_had(store: SqliteStore) -> None:
    old = {"role": "operator", "tenant": None, "name": "", "hash": "", "createdAt": 0, "revokedAt": None}
    await store.put_record(KEY_RECORDS, "0" * 12, old, expected=0)
    (known,) = await Access(store, Actor("ana", "test")).list()
    assert known.may(Permission.REVEAL)
    assert known.expires_at is known.used_at is None


async def test_a_key_ends_when_its_time_does(store: SqliteStore, access: Access) -> None:
    credential, text = await access.create(Role.VIEWER, None, limits=Limits(lifetime=timedelta(hours=1)))
    assert credential.expires_at == credential.created_at + 3_600_000
    assert await verify(store, text) is not None
    store.skew_ms += 3_600_000
    assert await verify(store, text) is None


async def test_the_last_use_is_kept_and_written_at_most_once_a_minute(
    store: SqliteStore, access: Access
) -> None:
    credential, text = await access.create(Role.VIEWER, None)
    versions = set()
    for _ in range(20):
        await verify(store, text)
        record = await store.get_record(KEY_RECORDS, credential.id)
        assert record is not None
        versions.add(record.version)
    first = (await access.list())[0].used_at
    assert first is not None
    assert len(versions) == 1
    store.skew_ms += 60_000
    await verify(store, text)
    second = (await access.list())[0].used_at
    assert second is not None
    assert second >= first + 60_000
    await verify(store, text[:-1] + ("A" if text[-1] != "A" else "B"))
    assert (await access.list())[0].used_at == second


async def test_a_rotated_key_and_its_successor_overlap(store: SqliteStore, access: Access) -> None:
    limits = Limits(
        senders=SenderDomains.parse(["acme.example"]),
        queues=QueuePatterns.parse(["orders*"]),
        lifetime=timedelta(days=30),
    )
    old, text = await access.create(Role.SUBMIT, "acme", "shop", limits)
    store.skew_ms += 86_400_000
    made = await access.rotate(old.id, timedelta(hours=2))
    assert made is not None
    new, fresh = made
    assert (new.role, new.tenant, new.name, new.senders, new.queues) == (
        Role.SUBMIT,
        "acme",
        "shop",
        limits.senders,
        limits.queues,
    )
    assert new.expires_at == new.created_at + 30 * 86_400_000
    assert await verify(store, text) is not None
    assert await verify(store, fresh) is not None
    store.skew_ms += 7_200_000
    assert await verify(store, text) is None
    assert await verify(store, fresh) is not None
    journal = str(await store.read_journal(AUDIT))
    assert "rotate key" in journal
    assert fresh not in journal


async def test_rotating_never_lengthens_a_key_and_never_revives_one(
    store: SqliteStore, access: Access
) -> None:
    short, _ = await access.create(Role.VIEWER, None, limits=Limits(lifetime=timedelta(minutes=5)))
    assert await access.rotate(short.id, timedelta(days=1)) is not None
    assert (await access.find(short.id)) == short
    assert await access.revoke(short.id)
    assert await access.rotate(short.id) is None
    assert await access.rotate("0" * 12) is None


@pytest.mark.parametrize(
    ("role", "limits"),
    [
        (Role.SUBMIT, Limits(reveal=True)),
        (Role.VIEWER, Limits(senders=SenderDomains(("acme.example",)))),
        (Role.ADMIN, Limits(queues=QueuePatterns(("orders",)))),
        (Role.VIEWER, Limits(lifetime=timedelta())),
        (Role.VIEWER, Limits(lifetime=timedelta(days=4000))),
    ],
)
async def test_limits_that_mean_nothing_for_a_role_are_refused(
    access: Access, role: Role, limits: Limits
) -> None:
    with pytest.raises(ConfigurationError):
        await access.create(role, "acme", limits=limits)
    assert await access.list() == []
