"""Who is signed in to the dashboard: sessions, and links that open one.

A session belongs to a key and may what the key may; it ends with it, at its own end, or when it is revoked.
Its token and that of a link are 256 random bits, stored as their hash. A link works once, for ten minutes.
Known weakness: whoever reads the link in the terminal before it is used can use it, from the same machine.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta

from redrive.core.errors import ConfigurationError
from redrive.core.records import Document, Record
from redrive.office.access import Access, Credential, Permission, find_key, is_id
from redrive.office.audit import Actor, action
from redrive.office.ports import Books
from redrive.office.records import every_record

SESSION_RECORDS = "session"
LINK_RECORDS = "sign_in_link"
SESSION_LASTS = timedelta(hours=12)
LINK_LASTS = timedelta(minutes=10)
_TOKEN = re.compile(r"rd([sl])_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session: whose key, since when, until when, and from where."""

    id: str
    key: str
    created_at: int
    expires_at: int
    origin: str


class SignInRefused(ConfigurationError):
    """Nobody can be signed in as asked."""


class Sessions:
    """The sessions of a store, for one actor."""

    def __init__(self, store: Books, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    async def open(self, key: Credential) -> tuple[SignedIn, str]:
        """A new session of a key and its token, which is not kept anywhere."""
        if not key.may(Permission.READ):
            raise SignInRefused(
                f"a {key.role} key reads nothing: sign in with a viewer's, operator's or admin's"
            )
        token, secret = _new("s")
        now = self._store.now()
        made = SignedIn(_id(token), key.id, now, _end(key, now), self._actor.origin)
        async with action(self._store, self._actor, "sign in", {"session": made.id, "key": key.id}):
            document = {
                "hash": _hash(secret),
                "key": made.key,
                "createdAt": made.created_at,
                "expiresAt": made.expires_at,
                "origin": made.origin,
            }
            lasts_s = (made.expires_at - now) / 1000
            await self._store.put_record(SESSION_RECORDS, made.id, document, expected=0, ttl_s=lasts_s)
        return made, token

    async def list(self) -> list[SignedIn]:
        """Every session that has not ended, the newest first."""
        found = [_session(record) async for record in every_record(self._store, SESSION_RECORDS)]
        return sorted(found, key=lambda one: -one.created_at)

    async def revoke(self, session_id: str) -> bool:
        """End a session at once; False when there is none."""
        if not is_id(session_id):
            return False
        async with action(self._store, self._actor, "end session", {"session": session_id}) as current:
            ended = await self._store.delete_record(SESSION_RECORDS, session_id, expected=None)
            current.result["ended"] = ended
        return ended

    async def link(self, key_id: str | None = None, *, remote: bool = False) -> tuple[Credential, str]:
        """The token of a link that signs in as a key, without one named as the first admin's.

        `remote`: it works from other machines too.
        """
        key = await self._meant(key_id)
        token, secret = _new("l")
        subject = {"link": _id(token), "key": key.id, "remote": remote}
        async with action(self._store, self._actor, "make sign-in link", subject):
            document = {"hash": _hash(secret), "key": key.id, "remote": remote}
            await self._store.put_record(
                LINK_RECORDS, _id(token), document, expected=0, ttl_s=LINK_LASTS.total_seconds()
            )
        return key, token

    async def _meant(self, key_id: str | None) -> Credential:
        if key_id is not None:
            key = await find_key(self._store, key_id)
            if key is None:
                raise SignInRefused(f"no key {key_id!r} that is let in: see redrive keys list")
        else:
            key = await self._first_admin()
        if not key.may(Permission.READ):
            raise SignInRefused(f"a {key.role} key reads nothing: name a viewer's, operator's or admin's")
        return key

    async def _first_admin(self) -> Credential:
        now = self._store.now()
        admins = [
            key
            for key in await Access(self._store, self._actor).list()
            if key.may(Permission.ADMINISTER) and key.tenant is None and key.lives(now)
        ]
        if not admins:
            raise SignInRefused(
                "no admin key that belongs to no tenant: make one with redrive keys create --role admin"
            )
        return min(admins, key=lambda key: key.created_at)


async def find_session(store: Books, token: str) -> tuple[SignedIn, Credential] | None:
    """The session of a token and the key it belongs to; None unless both are let in now."""
    record = await _known(store, SESSION_RECORDS, "s", token)
    if record is None:
        return None
    found = _session(record)
    key = await find_key(store, found.key)
    return None if key is None or found.expires_at <= store.now() else (found, key)


async def redeem_link(store: Books, token: str, *, local: bool) -> Credential | None:
    """The key that a link signs in as, once; None where it is wrong, used, too old, or not for this place."""
    record = await _known(store, LINK_RECORDS, "l", token)
    if record is None or not (local or record.document["remote"]):
        return None
    if not await store.delete_record(LINK_RECORDS, record.id, expected=None):
        return None
    return await find_key(store, str(record.document["key"]))


def form_token(session_token: str) -> str:
    """What every form of a session carries: who cannot read its pages cannot know it."""
    return hmac.new(session_token.encode(), b"form", hashlib.sha256).hexdigest()


async def _known(store: Books, kind: str, letter: str, token: str) -> Record | None:
    match = _TOKEN.fullmatch(token)
    if match is None or match[1] != letter:
        return None
    record = await store.get_record(kind, match[2])
    if record is None or not hmac.compare_digest(str(record.document["hash"]), _hash(match[3])):
        return None
    return record


def _new(letter: str) -> tuple[str, str]:
    secret = secrets.token_urlsafe(32)
    return f"rd{letter}_{secrets.token_hex(6)}_{secret}", secret


def _id(token: str) -> str:
    return token.split("_", 2)[1]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


def _end(key: Credential, now: int) -> int:
    ends_at = now + round(1000 * SESSION_LASTS.total_seconds())
    return ends_at if key.expires_at is None else min(ends_at, key.expires_at)


def _session(record: Record) -> SignedIn:
    document: Document = record.document
    return SignedIn(
        record.id, document["key"], document["createdAt"], document["expiresAt"], str(document["origin"])
    )
