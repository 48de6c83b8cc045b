"""`redrive mail`: hand a mail in, see how far it is, and ask what would be done about a reply.

Where mail did not arrive is in a file of its own, since it brings the index along.
"""

from __future__ import annotations

import mimetypes
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from redrive.app import Redrive
from redrive.cli.output import Length, Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.mail import judgement_line, judgement_page, mail_page
from redrive.cli.send import answer_receipt, parse_header
from redrive.cli.session import NO_FLAGS, Flags, operator, refuse_missing
from redrive.core.failure import Kind
from redrive.core.message import DEFAULT_TENANT
from redrive.mail.documents import mail_document
from redrive.mail.judging.replies import Judgement, Reply, Stage
from redrive.mail.judging.rules import Rules
from redrive.mail.stored import QUEUE
from redrive.mail.writing.checked import MAX_BYTES
from redrive.mail.writing.mail import Attachment, Mail

mail = App(name="mail")


@mail.command
async def send(
    *,
    from_: Annotated[str, Parameter(name="--from")],
    to: tuple[str, ...] = (),
    cc: tuple[str, ...] = (),
    bcc: tuple[str, ...] = (),
    reply_to: tuple[str, ...] = (),
    subject: str = "",
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    html: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    attach: tuple[Path, ...] = (),
    header: tuple[str, ...] = (),
    tenant: str = DEFAULT_TENANT,
    ttl: Length = None,
    idempotency_key: str | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Hand in a mail; prints its id once it is stored. A worker sends it.

    Parameters
    ----------
    from_
        The sender, as local@domain or "Name <local@domain>".
    to
        A recipient; can be repeated.
    cc
        A recipient of a copy; can be repeated.
    bcc
        A recipient of a blind copy; can be repeated.
    reply_to
        Where answers go; can be repeated.
    subject
        The subject.
    text
        The text; - reads it from standard input.
    html
        The same as HTML; - reads it from standard input.
    attach
        A file that goes along; can be repeated.
    header
        name=value; can be repeated.
    tenant
        Whose mail it is.
    ttl
        Give up after this long, such as 600 (seconds) or 10m.
    idempotency_key
        A key of your own: a second mail with it gets the first one's id.
    """
    if text == html == "-":
        raise CommandError("--text and --html cannot both be read from standard input", Exit.USAGE)
    given = Mail(
        from_=from_,
        to=to,
        cc=cc,
        bcc=bcc,
        reply_to=reply_to,
        subject=subject,
        text=_content(text),
        html=_content(html),
        attachments=[_attachment(file) for file in attach],
        headers=dict(map(parse_header, header)),
    )
    async with Redrive(settings=flags.settings()) as app:
        receipt = await app.mail.submit(given, tenant=tenant, dedupe=idempotency_key, ttl=ttl)
    answer_receipt(Output(flags.json), QUEUE, tenant, receipt)


@mail.command
async def show(mail_id: str, /, *, reveal: bool = False, flags: Flags = NO_FLAGS) -> None:
    """How far a mail is: the state of each recipient, and every attempt.

    Parameters
    ----------
    mail_id
        The id that was answered when the mail was handed in.
    reveal
        Show addresses and reasons without masks; the audit records who did.
    """
    settings, output = flags.settings(), Output(flags.json)
    refuse_missing(settings.store)
    async with Redrive(settings=settings) as app:
        status = await app.mail.find(mail_id)
        if status is None:
            raise CommandError(
                f"no mail {mail_id!r} in this store: it may have been cleaned up; "
                "redrive show also knows other messages",
                Exit.NOT_FOUND,
            )
        mask = await app.office.acting(operator()).view.mask({"ids": [mail_id]}, reveal=reveal)
        document, now = mail_document(status, mask.text), app.store.now()
        output.answer(document, lambda: mail_page(status, document, now))


mail.command("redrive.cli.destinations:destinations")


@mail.command
def classify(
    reply: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    stage: Stage | None = None,
    rules: Path | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """What would be done about a mail server's reply, by which rule, and why.

    Parameters
    ----------
    reply
        The reply, such as "550 5.7.1 …"; without one, or with -, each line of standard input is one.
    stage
        Where in the dialogue it came; default: what the reply itself says.
    rules
        A TOML file laid over our rules; default: the one that the setting `mail_rules` names.
    """
    chosen = rules or flags.settings().mail_rules
    table = Rules.default() if chosen is None else Rules.load(chosen)
    output = Output(flags.json)
    if reply is not None and reply != "-":
        judged = table.judge(Reply.parse(reply, stage=stage))
        output.answer(_judgement_document(reply, judged), lambda: judgement_page(judged))
        return
    for line in _lines():
        judged = table.judge(Reply.parse(line, stage=stage))
        output.answer(_judgement_document(line, judged), partial(judgement_line, line, judged))


def _content(given: str | None) -> str | None:
    return sys.stdin.read() if given == "-" else given


def _attachment(file: Path) -> Attachment:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise CommandError(f"{file} is larger than {MAX_BYTES:,} bytes: send a link to it", Exit.USAGE)
        data = file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}", Exit.USAGE) from error
    kind, packed = mimetypes.guess_type(file.name)
    return Attachment.of(file.name, data, kind if kind and not packed else "application/octet-stream")


def _lines() -> Iterator[str]:
    if sys.stdin.isatty():
        raise CommandError('give a reply, as in "550 5.7.1 …", or pipe in one a line', Exit.USAGE)
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def _judgement_document(reply: str, judged: Judgement) -> dict[str, Any]:
    return {
        "reply": reply,
        "action": judged.action.value,
        "scope": judged.scope.value,
        "kind": judged.kind.value,
        "rule": judged.rule,
        "why": judged.why,
        "retry": judged.kind is not Kind.PERMANENT,
        "retryAfter": judged.retry_after_s,
    }
