"""SMTP AUTH from the server's side: PLAIN, LOGIN and CRAM-MD5, one step at a time and without I/O."""

from __future__ import annotations

import hmac
import os
from base64 import b64decode, b64encode
from dataclasses import dataclass

from redrive.mailbox.replies import (
    AUTH_CANCELLED,
    AUTH_REFUSED,
    AUTHENTICATED,
    BAD_BASE64,
    UNKNOWN_MECHANISM,
    SimulatedReply,
    reply,
)
from redrive.mailbox.settings import MailboxSettings

MECHANISMS = ("PLAIN", "LOGIN", "CRAM-MD5")


@dataclass(frozen=True, slots=True)
class LoginClaim:
    """What a client said of itself: a password, or a digest of one over our challenge."""

    user: bytes
    password: bytes | None = None
    digest: bytes = b""
    challenge: bytes = b""

    def proves(self, user: str, password: str) -> bool:
        """Whether this is that user."""
        proof = password.encode("utf-8")
        shown = self.password
        if shown is None:
            proof = hmac.new(proof, self.challenge, "md5").hexdigest().encode("ascii")
            shown = self.digest
        same_user = hmac.compare_digest(self.user, user.encode("utf-8"))
        return hmac.compare_digest(shown, proof) and same_user


class Exchange:
    """One AUTH command until its end."""

    def __init__(self, mechanism: str, settings: MailboxSettings) -> None:
        self._mechanism = mechanism.upper()
        self._settings = settings
        self._answers: list[bytes] = []
        self._challenge = b"<" + os.urandom(12).hex().encode("ascii") + b"@mailbox>"

    def begin(self, initial: str) -> SimulatedReply:
        """The answer to the AUTH command itself; 334 asks for more."""
        if self._mechanism not in MECHANISMS:
            return UNKNOWN_MECHANISM
        if self._mechanism == "CRAM-MD5" and initial:
            return BAD_BASE64
        return self.step("" if initial == "=" else initial) if initial else self._ask()

    def step(self, line: str) -> SimulatedReply:
        """The answer to a line of the client's."""
        if line == "*":
            return AUTH_CANCELLED
        try:
            self._answers.append(b64decode(line, validate=True))
        except ValueError:
            return BAD_BASE64
        if self._mechanism == "LOGIN" and len(self._answers) < 2:
            return self._ask()
        claim = self._claim()
        if claim is None:
            return BAD_BASE64
        return AUTHENTICATED if self._lets_in(claim) else AUTH_REFUSED

    def _ask(self) -> SimulatedReply:
        questions = {
            "PLAIN": b"",
            "LOGIN": b"Password:" if self._answers else b"Username:",
            "CRAM-MD5": self._challenge,
        }
        return reply(334, b64encode(questions[self._mechanism]).decode("ascii"))

    def _claim(self) -> LoginClaim | None:
        if self._mechanism == "LOGIN":
            return LoginClaim(self._answers[0], self._answers[1])
        if self._mechanism == "PLAIN":
            parts = self._answers[0].split(b"\x00")
            return LoginClaim(parts[1], parts[2]) if len(parts) == 3 else None
        user, blank, digest = self._answers[0].rpartition(b" ")
        return LoginClaim(user, digest=digest, challenge=self._challenge) if blank else None

    def _lets_in(self, claim: LoginClaim) -> bool:
        wanted = self._settings.require_auth
        if self._settings.reject_auth:
            return False
        return wanted is None or claim.proves(wanted.user, wanted.password)
