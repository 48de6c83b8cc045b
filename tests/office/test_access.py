"""Keys: shown once, stored hashed, bound to a tenant, ended at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redrive.core.errors import ConfigurationError, InvalidMessage
from redrive.office.access import KEY_RECORDS, Access, Permission, Role, verify
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
    assert [one.revoked_at is None for one in await access.list()] == [False]
    assert not await access.revoke("000000000000")


async def test_a_submit_key_needs_a_tenant_with_a_name(access: Access) -> None:
    with pytest.raises(ConfigurationError, match="--tenant"):
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
