"""Anybody can use it: axe-core finds nothing, and by checks of our own labels, one main heading, contrast in
both themes, focus in reading order, no sideways scrolling on a telephone."""

from __future__ import annotations

from importlib.resources import files

import pytest
from playwright.sync_api import Page

from redrive.office.access import Role
from tests.pages.conftest import Enter
from tests.pages.shop import INVOICES, ORDERS, Shop

CHECKS = """() => {
  const wrong = [];
  const say = (what, one) => wrong.push(`${what}: ${one.outerHTML.slice(0, 120)}`);
  const shown = (one) => one.checkVisibility() && !one.closest(".visually-hidden, [hidden]");
  const named = (one) => (one.ariaLabel || one.innerText || one.title || one.alt || "").trim();
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) wrong.push("not one main");
  if (!document.documentElement.lang) wrong.push("no language");
  for (const one of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (shown(one) && !one.labels.length && !one.getAttribute("aria-label")) say("no label", one);
  for (const one of document.querySelectorAll("a, button"))
    if (shown(one) && !named(one) && !one.querySelector("img[alt], svg[aria-label]")) say("no name", one);
  for (const one of document.querySelectorAll("nav, svg[role=img], iframe"))
    if (shown(one) && !named(one)) say("no name", one);
  for (const one of document.querySelectorAll("img")) if (!one.hasAttribute("alt")) say("no alt", one);
  for (const one of document.querySelectorAll("[tabindex]")) if (one.tabIndex > 0) say("tabindex", one);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice the id ${id}`);
  let level = 0;
  for (const one of document.querySelectorAll("h1, h2, h3")) {
    const now = Number(one.tagName[1]);
    if (now > level + 1) say("heading skips a level", one);
    level = now;
  }
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  const pixel = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const one of colours) { canvas.fillStyle = one; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (it) => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4;
  const light = (rgb) => rgb.map((it) => linear(it / 255))
    .reduce((sum, it, at) => sum + it * [0.2126, 0.7152, 0.0722][at], 0);
  for (const one of document.querySelectorAll("body *")) {
    const text = [...one.childNodes].some((it) => it.nodeType === 3 && it.data.trim());
    if (!text || !shown(one) || one.closest("svg, option, iframe")) continue;
    const grounds = [];
    for (let it = one; it; it = it.parentElement) grounds.unshift(getComputedStyle(it).backgroundColor);
    const behind = light(pixel(["#fff", ...grounds]));
    const before = light(pixel(["#fff", ...grounds, getComputedStyle(one).color]));
    const ratio = (Math.max(behind, before) + 0.05) / (Math.min(behind, before) + 0.05);
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}`, one);
  }
  return wrong;
}"""
STILL = "window.EventSource = class extends EventTarget { close() {} }"
"""Nothing is told live: axe looks around for a while, and a page must not change meanwhile."""
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
AXE_FINDS = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"], iframes: false });
  return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((it) => it.html).join(" ")}`);
}"""
FOCUS = """() => {
  const one = document.activeElement;
  const box = one.getBoundingClientRect();
  return [one.outerHTML.slice(0, 60), getComputedStyle(one).outlineStyle, box.width > 0];
}"""


@pytest.fixture(scope="module")
def paths(shop: Shop) -> list[str]:
    (letter,) = shop.bury(ORDERS, [{"cause": "to be read", "code": "503"}])
    shop.bury(INVOICES, [{"cause": "bug"}], "globex")
    key = shop.key(Role.VIEWER).split("_")[1]
    return [
        *("/", "/letters", "/letters?view=letters", "/letters?view=ages", "/group?by=code&key=503"),
        *(f"/letters/{letter}", f"/letters/{letter}/edit", "/preview?filter=code:503", "/operations"),
        *("/messages", "/queues", f"/queues/{ORDERS}", "/tenants", "/tenants/acme", "/mail", "/alerts"),
        *("/audit", "/sql", "/keys", f"/keys/{key}/revoke"),
    ]


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 360)])
def test_every_page_can_be_used_by_anybody(paths: list[str], enter: Enter, theme: str, width: int) -> None:
    page = enter(Role.ADMIN, color_scheme=theme, viewport={"width": width, "height": 800})
    page.add_init_script(STILL)
    wrong = {}
    for path in paths:
        page.goto(path)
        found = page.evaluate(CHECKS) + axe(page)
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            found.append(f"it is {wide} wide")
        if found:
            wrong[path] = found
    assert wrong == {}


def test_the_way_in_can_be_used_by_anybody(shop: Shop, enter: Enter) -> None:
    page = enter(Role.ADMIN)
    page.context.clear_cookies()
    page.goto("/sign-in")
    assert page.evaluate(CHECKS) + axe(page) == []


def test_focus_is_seen_and_goes_in_reading_order(enter: Enter, paths: list[str]) -> None:
    page = enter(Role.ADMIN)
    page.goto(paths[0])
    walked = [_next(page) for _ in range(12)]
    assert walked[0][0].startswith('<a class="skip"')
    assert 'class="brand"' in walked[1][0]
    assert all(outline != "none" and visible for _, outline, visible in walked)


def axe(page: Page) -> list[str]:
    """What axe-core finds wrong with a page."""
    page.evaluate(AXE)
    found: list[str] = page.evaluate(AXE_FINDS)
    return found


def _next(page: Page) -> list[str]:
    page.keyboard.press("Tab")
    found: list[str] = page.evaluate(FOCUS)
    return found
