"""Who may do what: API keys with a role, and what each is limited to.

A key is 256 random bits, shown once and stored as its hash. Its tenant comes with it and from nowhere else.
Everything is denied that a role is not granted here. A key's last use is written at most once a minute.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from redrive.core.errors import ConfigurationError, StoreError, VersionConflict
from redrive.core.grants import QueuePatterns, SenderDomains
from redrive.core.message import check_tenant
from redrive.core.records import Document, Record
from redrive.office.audit import Actor, action
from redrive.office.ports import Books
from redrive.office.records import every_record
from redrive.office.view import MayNotReveal

KEY_RECORDS = "key"
NAME_LENGTH = 200
OVERLAP = timedelta(days=1)
USE_S = 60.0
LONGEST = timedelta(days=3650)
_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)
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
    Role.OPERATOR: frozenset({Permission.READ, Permission.OPERATE}),
    Role.ADMIN: frozenset({Permission.READ, Permission.OPERATE, Permission.ADMINISTER}),
}
_REVEALING = frozenset({Role.OPERATOR, Role.ADMIN})


def roles_with(permissions: Set[Permission]) -> list[Role]:
    """The roles that are granted one of these."""
    return [role for role in Role if _GRANTS[role] & permissions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a key is limited to besides its role.

    `senders` and `queues` are for submit keys. `reveal` of None is what the role has: operators and admins
    may see payloads without masks. `lifetime` of None is without end.
    """

    senders: SenderDomains = field(default_factory=SenderDomains)
    queues: QueuePatterns = field(default_factory=QueuePatterns)
    reveal: bool | None = None
    lifetime: timedelta | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Credential:
    """A key as it is known after it was shown: without its secret. No tenant: all tenants."""

    id: str
    role: Role
    tenant: str | None
    name: str
    created_at: int
    revoked_at: int | None = None
    expires_at: int | None = None
    used_at: int | None = None
    reveal: bool = False
    senders: SenderDomains = field(default_factory=SenderDomains)
    queues: QueuePatterns = field(default_factory=QueuePatterns)

    def may(self, permission: Permission) -> bool:
        """Whether the key is granted this."""
        return self.reveal if permission is Permission.REVEAL else permission in _GRANTS[self.role]

    def sees(self, tenant: str) -> bool:
        """Whether a tenant's messages are this key's to see."""
        return self.tenant is None or self.tenant == tenant

    def lives(self, now: int) -> bool:
        """Whether the key is let in: it is not revoked, and its time has not ended."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Access:
    """The keys of a store, for one actor; who may not reveal makes no key that may."""

    def __init__(self, store: Books, actor: Actor, *, reveals: bool = True) -> None:
        self._store = store
        self._actor = actor
        self._reveals = reveals

    async def create(
        self, role: Role, tenant: str | None, name: str = "", limits: Limits = NO_LIMITS
    ) -> tuple[Credential, str]:
        """A new key and its text, which is not kept anywhere."""
        made = self._make(role, tenant, name, limits)
        self._check(made)
        async with action(self._store, self._actor, "create key", _subject(made)):
            return made, await self._keep(made)

    async def list(self, *, ended: bool = False) -> list[Credential]:
        """The keys that are let in, the oldest first; with `ended` also those that were revoked or ended."""
        now = self._store.now()
        found = [_credential(record) async for record in every_record(self._store, KEY_RECORDS)]
        return sorted((key for key in found if ended or key.lives(now)), key=lambda key: key.created_at)

    async def find(self, key_id: str) -> Credential | None:
        """One key, or None when there is none of this id."""
        record = await self._store.get_record(KEY_RECORDS, key_id)
        return None if record is None else _credential(record)

    async def revoke(self, key_id: str) -> Credential | None:
        """End a key at once; None when there is no such key. One that was revoked before stays as it is."""
        if not is_id(key_id):
            return None
        before_at: int | None = None

        def end(known: Document) -> Document:
            nonlocal before_at
            before_at = known["revokedAt"]
            return {"revokedAt": self._store.now() if before_at is None else before_at}

        async with action(self._store, self._actor, "revoke key", {"key": key_id}) as current:
            if not await self._change(key_id, end):
                return None
            current.result["revoked"] = before_at is None
            if before_at is not None:
                current.result["revokedAt"] = before_at
        return await self.find(key_id)

    async def rotate(self, key_id: str, overlap: timedelta = OVERLAP) -> tuple[Credential, str] | None:
        """A new key with everything that the old one may; the old one ends after the overlap.

        None when there is no such key or it has ended. A key that ends by itself is followed by one that
        lives as long.
        """
        if not timedelta() <= overlap <= LONGEST:
            raise ConfigurationError("the overlap is not 0 to 10 years")
        old, now = await self.find(key_id), self._store.now()
        if old is None or not old.lives(now):
            return None
        self._check(old)
        made = replace(
            old, id=secrets.token_hex(6), created_at=now, used_at=None, expires_at=_as_long(old, now)
        )
        ends_at = now + round(1000 * overlap.total_seconds())
        subject = _subject(made) | {"replaces": key_id}
        async with action(self._store, self._actor, "rotate key", subject) as current:
            text = await self._keep(made)
            await self._change(key_id, lambda known: {"expiresAt": _sooner(known["expiresAt"], ends_at)})
            current.result["oldEndsAt"] = _sooner(old.expires_at, ends_at)
        return made, text

    def _check(self, key: Credential) -> None:
        if key.reveal and not self._reveals:
            raise MayNotReveal

    def _make(self, role: Role, tenant: str | None, name: str, limits: Limits) -> Credential:
        if role is Role.SUBMIT and tenant is None:
            raise ConfigurationError(
                "a submit key belongs to a tenant: name it, with --tenant or as companyId"
            )
        if tenant is not None:
            check_tenant(tenant)
        if len(name) > NAME_LENGTH:
            raise ConfigurationError(f"a key's name has at most {NAME_LENGTH} characters, not {len(name):,}")
        if role is Role.SUBMIT and limits.reveal:
            raise ConfigurationError("a submit key reads nothing that is masked: do not grant it reveal")
        if role is not Role.SUBMIT and (limits.senders or limits.queues):
            raise ConfigurationError("sender domains and queues are for submit keys: leave them out")
        if limits.lifetime is not None and not timedelta() < limits.lifetime <= LONGEST:
            raise ConfigurationError("a key lives for more than 0 seconds and at most 10 years")
        now = self._store.now()
        lifetime = limits.lifetime
        return Credential(
            secrets.token_hex(6),
            role,
            tenant,
            name,
            now,
            expires_at=None if lifetime is None else now + round(1000 * lifetime.total_seconds()),
            reveal=role in _REVEALING if limits.reveal is None else limits.reveal,
            senders=limits.senders,
            queues=limits.queues,
        )

    async def _keep(self, made: Credential) -> str:
        """Write the key's record; its text."""
        secret = secrets.token_urlsafe(32)
        document = _document(made) | {"hash": _hash(secret), "createdBy": self._actor.name}
        await self._store.put_record(KEY_RECORDS, made.id, document, expected=0)
        return f"rdk_{made.id}_{secret}"

    async def _change(self, key_id: str, changes: Callable[[Document], Document]) -> bool:
        """Change some fields, whoever else changes others at the same time; False when there is no key."""
        while (record := await self._store.get_record(KEY_RECORDS, key_id)) is not None:
            document = {**_ABSENT, **record.document}
            with suppress(VersionConflict):
                changed = {**document, **changes(document)}
                await self._store.put_record(KEY_RECORDS, key_id, changed, expected=record.version)
                return True
        return False


def is_id(text: str) -> bool:
    """Whether a key or a session can have this id; what cannot be needs no row in the audit."""
    return _ID.fullmatch(text) is not None


async def find_key(store: Books, key_id: str) -> Credential | None:
    """The key of this id; None when there is none that is let in."""
    record = await store.get_record(KEY_RECORDS, key_id)
    found = None if record is None else _credential(record)
    return found if found is not None and found.lives(store.now()) else None


async def verify(store: Books, text: str) -> Credential | None:
    """The credential of a key's text, or None when it is unknown, wrong, revoked or past its time."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    record = await store.get_record(KEY_RECORDS, match[1])
    if record is None or not hmac.compare_digest(str(record.document["hash"]), _hash(match[2])):
        return None
    credential = _credential(record)
    now = store.now()
    if not credential.lives(now):
        return None
    if credential.used_at is None or now - credential.used_at >= 1000 * USE_S:
        await _note_use(store, record, now)
    return credential


async def _note_use(store: Books, record: Record, now: int) -> None:
    """Keep when the key was last used. No reason to refuse: another process may have done it."""
    with suppress(VersionConflict, StoreError):
        document = {**record.document, "usedAt": now}
        await store.put_record(KEY_RECORDS, record.id, document, expected=record.version)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def _as_long(old: Credential, now: int) -> int | None:
    return None if old.expires_at is None else now + old.expires_at - old.created_at


def _sooner(known: int | None, ends_at: int) -> int:
    return ends_at if known is None else min(known, ends_at)


_ABSENT: Document = {"expiresAt": None, "usedAt": None, "reveal": None, "fromDomains": [], "queues": []}


def _subject(key: Credential) -> dict[str, Any]:
    """What the audit says of a new key."""
    return {
        "key": key.id,
        "role": key.role.value,
        "tenant": key.tenant,
        "name": key.name,
        "expiresAt": key.expires_at,
        "reveal": key.reveal,
        "fromDomains": list(key.senders.domains),
        "queues": list(key.queues.patterns),
    }


def _document(key: Credential) -> dict[str, Any]:
    named = _subject(key)
    del named["key"]
    return named | {"createdAt": key.created_at, "revokedAt": key.revoked_at, "usedAt": key.used_at}


def _credential(record: Record) -> Credential:
    """Of a record that may be older than some of the fields."""
    document = {**_ABSENT, **record.document}
    role, reveal = Role(document["role"]), document["reveal"]
    return Credential(
        record.id,
        role,
        document["tenant"],
        document["name"],
        document["createdAt"],
        document["revokedAt"],
        document["expiresAt"],
        document["usedAt"],
        role in _REVEALING if reveal is None else reveal,
        SenderDomains(tuple(document["fromDomains"])),
        QueuePatterns(tuple(document["queues"])),
    )
