"""What an alert says: the figure, what it may be, and what was usual."""

from __future__ import annotations

from collections.abc import Mapping

from redrive.core.alerts import COUNTED, AlertFigure, AlertRule, AlertScope, Reading, threshold
from redrive.core.usual import Usual

_WORDS: Mapping[AlertFigure, str] = {
    AlertFigure.DLQ: "{value} dead letter{s}",
    AlertFigure.DLQ_SHARE: "{value} of what ended became dead letters",
    AlertFigure.DEAD: "{value} new dead letter{s}",
    AlertFigure.FAILURE_SHARE: "{value} of attempts failed",
    AlertFigure.RETRY_BACKLOG: "{value} message{s} wait{v} for a retry",
    AlertFigure.PROCESSING_S: "a message has been processed for {value}",
    AlertFigure.WAITING_S: "the oldest due message has waited for {value}",
    AlertFigure.HANDOVER_S: "messages took {value} from due to a worker's hands",
    AlertFigure.UNSERVED: "{value} due message{s} and no live worker that serves them",
    AlertFigure.STORE_SHARE: "{value} of the store's room is used",
    AlertFigure.STORE_REFUSING: "the store takes no new messages, for want of room",
    AlertFigure.REJECTED_CONNECTIONS: "the server rejected {value} connection{s}",
    AlertFigure.RELAY_LOST: "the mail relay cannot be reached, as {value} worker{s} say{v}",
    AlertFigure.BROKER_LOST: "the broker cannot be reached",
    AlertFigure.LANE_HELD: "the lane is held: its messages wait until the cause is fixed",
    AlertFigure.LETTERS_LEAVING: "{value} dead letter{s} will leave for an archive",
    AlertFigure.LETTERS_STUCK: "{value} dead letter{s} should leave and cannot",
    AlertFigure.OPERATIONS_HALTED: "{value} operation{s} halted",
    AlertFigure.NEW_GROUP: "a new failure group with {value} dead letter{s}",
}
_SHARES = frozenset({AlertFigure.DLQ_SHARE, AlertFigure.FAILURE_SHARE, AlertFigure.STORE_SHARE})
_SECONDS = frozenset({AlertFigure.PROCESSING_S, AlertFigure.WAITING_S, AlertFigure.HANDOVER_S})
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def sentence(rule: AlertRule, reading: Reading) -> str:
    """What a reading says, in one sentence."""
    place = "" if rule.scope is AlertScope.STORE else f"{reading.subject}: "
    counted = f" in the last {_span(rule.window_s)}" if rule.metric in COUNTED else ""
    limit = threshold(rule, reading)
    more = "" if not limit or rule.unusual else f" (more than {figure(rule.metric, limit)})"
    value = figure(rule.metric, reading.value)
    number = {"s": "", "v": "s"} if value == "1" else {"s": "s", "v": ""}
    said = _WORDS[rule.metric].format(value=value, **number)
    detail = f"; {reading.detail}" if reading.detail else ""
    return f"{place}{said}{counted}{more}{detail}"


def habit(rule: AlertRule, known: Usual, width_s: float) -> str:
    """What was usual, in words: `usual 0-4 an hour over the last 6 days`."""
    low, high = (figure(rule.metric, value) for value in (known.low, known.high))
    days = max(1, round(known.windows * width_s / 86_400))
    each = "an hour" if width_s == 3_600 else f"in {_span(width_s)}"
    spread = low if low == high else f"{low}-{high}"
    return f"usual {spread} {each} over the last {'day' if days == 1 else f'{days} days'}"


def figure(metric: AlertFigure, value: float) -> str:
    """A value as people read it."""
    if metric in _SHARES:
        return f"{value:.1%}".replace(".0%", "%")
    return _span(value) if metric in _SECONDS else f"{value:,.0f}"


def _span(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
