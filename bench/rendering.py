"""What rendering a mail of 2 KB costs: ours against EmailMessage.as_bytes, on one core, nothing written.

Ours is measured from the stored JSON to the bytes (decode, check, render) and for its last step alone; the
standard package builds the same mail and writes it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP

from bench.goals import Goal
from bench.load import Figures
from bench.report import report
from redrive.mail.writing.checked import check
from redrive.mail.writing.mail import Mail, decode, encode
from redrive.mail.writing.render import render

_SENDER, _RECIPIENT = "Acme Shop <noreply@acme.example>", "ann@example.org"
_SUBJECT = "Your order 1234 has been shipped"
_TEXT = ("Your parcel is on its way and should arrive within two working days.\n" * 30)[:2_000]
_HTML = f"<p>{_TEXT[:1_000]}</p>"
_MESSAGE_ID = "<0190a5b2-7c1d-7000-8000-000000000000@acme.example>"
_DATE = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)
_ROUNDS = 9
GOALS = tuple(
    Goal(f"{step}, {name}", f"{step} {name}", "µs")
    for name in ("plain", "html", "unicode")
    for step in ("render", "decode, check and render", "standard")
)


def run(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    figures = measure(options.seconds)
    print(report(GOALS, {name: [value] for name, value in figures.items()}, as_json=options.json))
    return 0


def measure(seconds: float) -> Figures:
    """Microseconds a mail, the best of 9 rounds: plain, with HTML, and beyond ASCII."""
    return {
        **_compare("plain", _mail(_TEXT, None, _SUBJECT), seconds),
        **_compare("html", _mail(_TEXT[:1_000], _HTML, _SUBJECT), seconds),
        **_compare("unicode", _mail(_TEXT.replace("a", "ä"), None, f"Größe: {_SUBJECT}"), seconds),
    }


def _compare(name: str, mail: Mail, seconds: float) -> Figures:
    checked, stored = check(mail), encode(mail)
    return {
        f"render {name}": _cost(lambda: render(checked, message_id=_MESSAGE_ID, date=_DATE), seconds),
        f"decode, check and render {name}": _cost(
            lambda: render(check(decode(stored)), message_id=_MESSAGE_ID, date=_DATE), seconds
        ),
        f"standard {name}": _cost(lambda: _standard(mail), seconds),
    }


def _mail(text: str, html: str | None, subject: str) -> Mail:
    return Mail(from_=_SENDER, to=_RECIPIENT, subject=subject, text=text, html=html)


def _standard(mail: Mail) -> bytes:
    message = EmailMessage(policy=SMTP)
    message["From"] = mail.from_
    message["To"] = _RECIPIENT
    message["Subject"] = mail.subject
    message["Date"] = _DATE
    message["Message-ID"] = _MESSAGE_ID
    message.set_content(mail.text or "")
    if mail.html is not None:
        message.add_alternative(mail.html, subtype="html")
    return message.as_bytes()


def _cost(task: Callable[[], object], seconds: float) -> float:
    """Microseconds a call, the best of some rounds, all of them within a ninth of the seconds."""
    task()
    began = time.perf_counter()
    task()
    once_s = max(time.perf_counter() - began, 1e-6)
    count = max(1, int(seconds / 9 / _ROUNDS / once_s))
    return min(_round(task, count) for _ in range(_ROUNDS)) * 1e6


def _round(task: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        task()
    return (time.perf_counter() - began) / count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="script/bench rendering", description="What rendering a mail costs."
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="how long all of it takes, about (3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
