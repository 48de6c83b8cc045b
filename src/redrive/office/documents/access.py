"""Who is let in: keys of the API, and who is signed in to the dashboard, as they go out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from redrive.core.values import instant
from redrive.office.documents.document import Document

if TYPE_CHECKING:
    from redrive.office.access import Credential
    from redrive.office.sessions import SignedIn


class KeyDocument(Document, frozen=True):
    """A key of the API, without its text. `lastUsedAt` is right to a minute.

    `fromDomains` and `queues` limit a submit key; empty: the tenant's domains, and queues that are known.
    """

    id: str
    role: str
    company_id: str | None
    name: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    reveal: bool
    from_domains: list[str]
    queues: list[str]


class KeyList(Document, frozen=True):
    """Keys, the oldest first."""

    keys: list[KeyDocument]


class NewKey(Document, frozen=True):
    """A new key with its text, which cannot be shown again."""

    key: str
    about: KeyDocument


class SessionDocument(Document, frozen=True):
    """Someone who is signed in to the dashboard, with a key."""

    id: str
    key: str
    created_at: str
    expires_at: str
    origin: str


class SessionList(Document, frozen=True):
    """Who is signed in, the newest first."""

    sessions: list[SessionDocument]


class EndedSession(Document, frozen=True):
    """A session that was ended."""

    id: str
    ended: bool = True


class SignInLink(Document, frozen=True):
    """A link that signs in as a key, once."""

    link: str
    key: str
    role: str
    company_id: str | None


SCHEMAS = (KeyDocument, KeyList, NewKey)


def key_document(key: Credential) -> KeyDocument:
    """A key, without its text."""
    return KeyDocument(
        id=key.id,
        role=key.role.value,
        company_id=key.tenant,
        name=key.name,
        created_at=instant(key.created_at),
        expires_at=instant(key.expires_at),
        revoked_at=instant(key.revoked_at),
        last_used_at=instant(key.used_at),
        reveal=key.reveal,
        from_domains=list(key.senders.domains),
        queues=list(key.queues.patterns),
    )


def new_key(key: Credential, text: str) -> NewKey:
    """A key that was made, this once with its text."""
    return NewKey(key=text, about=key_document(key))


def key_list(keys: Iterable[Credential]) -> KeyList:
    """Keys, the oldest first."""
    return KeyList(keys=[key_document(key) for key in keys])


def link_document(link: str, key: Credential) -> SignInLink:
    """A link, and whom it signs in as."""
    return SignInLink(link=link, key=key.id, role=key.role.value, company_id=key.tenant)


def session_list(found: Iterable[SignedIn]) -> SessionList:
    """Who is signed in."""
    return SessionList(
        sessions=[
            SessionDocument(
                id=one.id,
                key=one.key,
                created_at=instant(one.created_at),
                expires_at=instant(one.expires_at),
                origin=one.origin,
            )
            for one in found
        ]
    )
