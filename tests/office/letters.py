"""Dead letters for the office's tests: any that can be, and small real ones on a store."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from hypothesis import strategies as st

from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import DeadLetter, Redriven, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.message import Message, Progress, Track
from redrive.core.verdict import Reason

_text = st.text(st.characters(codec="utf-8"), max_size=30)
_instant = st.integers(0, 250_000_000_000_000)
_count = st.integers(0, 2**31)
_json = st.sampled_from([b"{}", b'{"a": "\\u00e9", "b": [1.50, 1e3]}', b" [1,  2]\n", "\u2028é".encode()])

failures = st.builds(
    Failure,
    at=_instant,
    attempt=_count,
    kind=st.sampled_from(Kind),
    reason=_text,
    code=st.none() | _text,
    scope=st.none() | st.sampled_from(Scope),
    fingerprint=_text,
    traceback=st.none() | _text,
)
redrives = st.builds(
    Redriven,
    at=_instant,
    generation=_count,
    actor=_text,
    operation=st.none() | _text,
    result=st.sampled_from(RedriveResult),
)
messages = st.builds(
    Message,
    id=_text,
    queue=_text,
    tenant=_text,
    body=st.binary(max_size=50) | _json,
    enqueued_at=_instant,
    ttl_s=st.floats(0, 1e9),
    track=st.sampled_from(Track),
    dedupe=st.none() | _text,
    headers=st.dictionaries(_text, _text, max_size=3),
    parent=st.none() | _text,
)
progresses = st.builds(
    Progress,
    state=st.just(State.DEAD),
    due_at=_instant,
    expires_at=_instant,
    attempts=_count,
    crashes=_count,
    generation=_count,
    operation=st.none() | _text,
)
letters = st.builds(
    DeadLetter,
    message=messages,
    progress=progresses,
    reason=st.sampled_from(Reason),
    died_at=_instant,
    first_died_at=_instant,
    fingerprint=_text,
    failures=st.lists(failures, max_size=3).map(tuple),
    redrives=st.lists(redrives, max_size=2).map(tuple),
)


def child(number: int, family: int, *, at: int = 0, shared: bytes = b'{"mail": 1}') -> DeadLetter:
    """The letter of one recipient of many."""
    made = letter(number, at=at)
    parent = f"{family:08x}-0000-7000-9000-00000000abcd"
    return replace(made, message=msgspec.structs.replace(made.message, parent=parent), shared=shared)


def letter(number: int = 0, *, body: bytes = b'{"n": 1}', queue: str = "orders", at: int = 0) -> DeadLetter:
    """A letter that any store takes in."""
    failure = Failure(
        at, 1, Kind.PERMANENT, "no such user", "550", Scope.RECIPIENT, "b" * 16, "Traceback: x", 1_250
    )
    return DeadLetter(
        Message(f"{number:08x}-0000-7000-8000-00000000abcd", queue, "acme", body, at, 60.0),
        Progress(State.DEAD, at, at + 60_000, attempts=1),
        Reason.BOUNCED,
        at + number,
        at + number,
        "b" * 16,
        (failure,),
    )
