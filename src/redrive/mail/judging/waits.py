"""How long a reply asks us to wait: "try again in 5 minutes", "come back in 00:04:59", in several languages.

Only a number with a unit after a word that asks for it counts; "timeout after 30 seconds" is read as a wait
too, which does no harm. Never more than a day.
"""

from __future__ import annotations

import re

from redrive.mail.judging.wording import plain

LONGEST_S = 86_400.0
_ASKING = (
    "in|after|for|within|wait|least|about|retry|another|"
    "nach|dans|apres|en|em|tra|fra|dopo|over|na|za|po|через|после"
)
_AMOUNT = re.compile(rf"\b(?:{_ASKING})[ :=]{{1,3}}(\d{{1,6}}) {{0,2}}([^\W\d_]{{1,10}})")
_EAST_AMOUNT = re.compile(r"(\d{1,6}) {0,2}(秒|分|小时|時間|时)")
_CLOCK = re.compile(rf"\b(?:{_ASKING}) (\d{{1,2}}):(\d{{2}}):(\d{{2}})\b")
_UNITS = {
    1: "s sec secs second seconds sekunden secondes seconden segundos secondi sekund секунд секунды 秒",
    60: "m min mins minute minutes minuten minutos minuti minut минут минуты 分",
    3_600: "h hr hrs hour hours stunde stunden heure heures hora horas ora ore uur godzin час часа часов",
}
_UNIT_S = {unit: seconds for seconds, units in _UNITS.items() for unit in units.split()}
_UNIT_S |= dict.fromkeys(("小时", "時間", "时"), 3_600)


def asked_wait_s(text: str) -> float | None:
    """The seconds that a reply asks us to wait, or None."""
    text = plain(text)
    if clock := _CLOCK.search(text):
        wait_s = int(clock[1]) * 3_600 + int(clock[2]) * 60 + int(clock[3])
    else:
        found = [*_AMOUNT.findall(text), *_EAST_AMOUNT.findall(text)]
        amounts = [int(number) * _UNIT_S[unit] for number, unit in found if unit in _UNIT_S]
        wait_s = amounts[0] if amounts else 0
    return min(float(wait_s), LONGEST_S) or None
