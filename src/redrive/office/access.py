"""Who may do what: API keys with a role, and what each role is permitted.

A key is 256 random bits, shown once and stored as its hash. Its tenant comes with it and from nowhere
else. Everything is denied that a role is not granted here.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum

from redrive.core.errors import ConfigurationError, VersionConflict
from redrive.core.message import check_tenant
from redrive.core.ports import Store
from redrive.core.records import Record
from redrive.office.audit import Actor, action
from redrive.office.records import every_record

KEY_RECORDS = "key"
_KEY = re.compile(r"rdk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)


class Role(StrEnum):
    """What a key is for."""

    SUBMIT = "submit"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Permission(StrEnum):
    """What a route asks for."""

    SUBMIT = "submit"
    READ = "read"
    REVEAL = "reveal"
    OPERATE = "operate"
    ADMINISTER = "administer"


_GRANTS: dict[Role, frozenset[Permission]] = {
    Role.SUBMIT: frozenset({Permission.SUBMIT}),
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: frozenset({Permission.READ, Permission.REVEAL, Permission.OPERATE}),
    Role.ADMIN: frozenset({Permission.READ, Permission.REVEAL, Permission.OPERATE, Permission.ADMINISTER}),
}


@dataclass(frozen=True, slots=True)
class Credential:
    """A key as it is known after it was shown: without its secret. No tenant: all tenants."""

    id: str
    role: Role
    tenant: str | None
    name: str
    created_at: int
    revoked_at: int | None = None

    def may(self, permission: Permission) -> bool:
        """Whether the role is granted this."""
        return permission in _GRANTS[self.role]

    def sees(self, tenant: str) -> bool:
        """Whether a tenant's messages are this key's to see."""
        return self.tenant is None or self.tenant == tenant


class Access:
    """The keys of a store, for one actor."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    async def create(self, role: Role, tenant: str | None, name: str = "") -> tuple[Credential, str]:
        """A new key and its text, which is not kept anywhere."""
        if role is Role.SUBMIT and tenant is None:
            raise ConfigurationError("a submit key belongs to a tenant: give --tenant")
        if tenant is not None:
            check_tenant(tenant)
        key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        credential = Credential(key_id, role, tenant, name, self._store.now())
        subject = {"key": key_id, "role": role.value, "tenant": tenant, "name": name}
        async with action(self._store, self._actor, "create key", subject):
            document = {
                "role": role.value,
                "tenant": tenant,
                "name": name,
                "hash": _hash(secret),
                "createdAt": credential.created_at,
                "createdBy": self._actor.name,
                "revokedAt": None,
            }
            await self._store.put_record(KEY_RECORDS, key_id, document, expected=0)
        return credential, f"rdk_{key_id}_{secret}"

    async def list(self) -> list[Credential]:
        """Every key, revoked ones included."""
        return [_credential(record) async for record in every_record(self._store, KEY_RECORDS)]

    async def revoke(self, key_id: str) -> bool:
        """End a key at once; False when there is no such key."""
        async with action(self._store, self._actor, "revoke key", {"key": key_id}) as current:
            while (record := await self._store.get_record(KEY_RECORDS, key_id)) is not None:
                document = {**record.document, "revokedAt": self._store.now()}
                try:
                    await self._store.put_record(KEY_RECORDS, key_id, document, expected=record.version)
                except VersionConflict:
                    continue
                current.result["revoked"] = True
                return True
        return False


async def verify(store: Store, text: str) -> Credential | None:
    """The credential of a key's text, or None when it is unknown, wrong or revoked."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    record = await store.get_record(KEY_RECORDS, match[1])
    if record is None or not hmac.compare_digest(str(record.document["hash"]), _hash(match[2])):
        return None
    credential = _credential(record)
    return credential if credential.revoked_at is None else None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def _credential(record: Record) -> Credential:
    document = record.document
    return Credential(
        record.id,
        Role(document["role"]),
        document["tenant"],
        document["name"],
        document["createdAt"],
        document["revokedAt"],
    )
