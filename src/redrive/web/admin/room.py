"""What the rooms share: the office's verbs for whoever calls.

The actor of the audit is the key, the scope is its tenant, and its role says whether it may reveal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from redrive.office.access import Permission
from redrive.office.audit import Actor
from redrive.office.office import ActingOffice, Office
from redrive.web.access import Call, Route
from redrive.web.limits import client_name


class AdminRoom(ABC):
    """Some routes on the office of one open store; `body_bytes`: how large a new payload may be."""

    def __init__(self, office: Office, body_bytes: int) -> None:
        self._office = office
        self._body_bytes = body_bytes

    @abstractmethod
    def routes(self) -> list[Route]:
        """The routes, with what answers each."""

    def acting(self, call: Call) -> ActingOffice:
        """The office's verbs within what the caller may see."""
        return acting(self._office, call)


def acting(office: Office, call: Call) -> ActingOffice:
    """The verbs of an office for whoever calls."""
    key = call.credential
    actor = Actor(f"{key.name or key.role}#{key.id}", f"http {client_name(call.request)}")
    return office.acting(actor, key.tenant, reveals=key.may(Permission.REVEAL))
