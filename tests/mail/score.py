"""How well the rules judge labelled replies: `python -m tests.mail.score FILE`.

A line of the file is a JSON object: `reply`, `retry` (may another attempt help?), and where known `stage`,
`scope`, `source`, `why`. A third of the lines, chosen by the hash of the reply, is held back: whoever changes
rules looks at the mistakes in the other two thirds only, and both scores are printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from redrive.core.failure import Kind, Scope
from redrive.mail.judging.replies import Judgement, Reply, Stage
from redrive.mail.judging.rules import Rules

_HELD_BACK = 3


@dataclass(frozen=True, slots=True)
class Labelled:
    """A reply with what its source says of it; `held_back` from whoever changes rules."""

    reply: str
    retry: bool
    stage: Stage | None = None
    scope: Scope | None = None
    source: str = ""

    @property
    def held_back(self) -> bool:
        """Whether this line belongs to the third that nobody tunes by."""
        return sha256(self.reply.encode()).digest()[0] % _HELD_BACK == 0


@dataclass(frozen=True, slots=True)
class Score:
    """Shares from 0 to 1. `given_up` is of what should be retried, `identity` of block listings."""

    replies: int
    balanced_accuracy: float
    given_up: float
    identity: float

    def __str__(self) -> str:
        return (
            f"{self.replies} replies: balanced accuracy {self.balanced_accuracy:.3f}, "
            f"{self.given_up:.1%} of retryable given up, {self.identity:.1%} of block listings seen as ours"
        )


def read(path: Path) -> list[Labelled]:
    """The labelled replies of a file."""
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines() if line)
    return [
        Labelled(
            row["reply"],
            row["retry"],
            Stage(row["stage"]) if "stage" in row else None,
            Scope(row["scope"]) if "scope" in row else None,
            row.get("source", ""),
        )
        for row in rows
    ]


def judge(labelled: Labelled, rules: Rules) -> Judgement:
    """What the rules say of a labelled reply."""
    return rules.judge(Reply.parse(labelled.reply, stage=labelled.stage))


def is_right(labelled: Labelled, judgement: Judgement) -> bool:
    """Whether the judgement retries what should be retried, and only that."""
    return labelled.retry is (judgement.kind is not Kind.PERMANENT)


def score(rows: Iterable[Labelled], rules: Rules) -> Score:
    """The score of the rules on these replies."""
    judged = [(row, judge(row, rules)) for row in rows]
    kept = _share(is_right(row, judgement) for row, judgement in judged if row.retry)
    ended = _share(is_right(row, judgement) for row, judgement in judged if not row.retry)
    ours = _share(judgement.scope is row.scope for row, judgement in judged if row.scope is Scope.IDENTITY)
    return Score(len(judged), (kept + ended) / 2, 1 - kept, ours)


def _share(answers: Iterable[bool]) -> float:
    listed = list(answers)
    return sum(listed) / len(listed) if listed else 1.0


def main(arguments: list[str]) -> int:
    """Print both scores, and the mistakes that may be looked at."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tests.mail.score FILE\n")
        return 2
    rows, rules = read(Path(arguments[0])), Rules.default()
    open_rows = [row for row in rows if not row.held_back]
    for row in open_rows:
        judgement = judge(row, rules)
        if not is_right(row, judgement) or row.scope not in (None, judgement.scope):
            wanted = "retry" if row.retry else "no retry"
            found = f"{judgement.action} ({judgement.scope}) by {judgement.rule}"
            sys.stdout.write(f"{wanted}, but {found}: {row.reply[:200]}\n")
    sys.stdout.write(f"open:      {score(open_rows, rules)}\n")
    sys.stdout.write(f"held back: {score((row for row in rows if row.held_back), rules)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
