// The dashboard's one module: live updates, times, keys, suggestions and copying. Every page works without it.

const live = document.querySelector("[data-live]");
const PAUSE_MS = 1000 * (live ? live.dataset.pause : 0);
const AGAIN_MS = 10000;
const SILENCE_MS = 25000;

// Live: the server says that something changed, the page is read again, and the parts that differ are put in
// place of the old ones. Nothing is asked while the tab is hidden.
let stream = null;
let reading = false;
let stale = false;
let last = Date.now();
let heard = Date.now();

function listen() {
  if (stream || !live || document.hidden) return;
  stream = new EventSource(live.dataset.live);
  stream.addEventListener("open", hear);
  stream.addEventListener("change", () => { hear(); refresh(); });
  stream.addEventListener("error", refused);
}

function hush() {
  if (stream) stream.close();
  stream = null;
}

// The browser opens a stream again that broke off, but not one that was refused: that is done here.
function refused() {
  if (!stream || stream.readyState !== EventSource.CLOSED) return;
  hush();
  refresh();
  setTimeout(listen, AGAIN_MS);
}

// A stream is never silent for long. What is shown may be old then, and the page says so.
function hear() {
  heard = Date.now();
  tellSilence();
}

function tellSilence() {
  const note = document.querySelector("[data-lost]");
  if (live && note) note.hidden = document.hidden || Date.now() - heard < SILENCE_MS;
}

async function refresh() {
  stale = true;
  if (reading) return;
  reading = true;
  try {
    while (stale && !document.hidden) {
      const wait = last + PAUSE_MS - Date.now();
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
      if (document.hidden) return;
      stale = false;
      last = Date.now();
      await readAgain();
    }
  } finally {
    reading = false;
  }
}

async function readAgain() {
  const answer = await fetch(location.href, { headers: { "Redrive-Live": "1" } }).catch(() => null);
  if (answer && answer.status === 401) return location.reload();
  if (!answer || !answer.ok || answer.redirected) return;
  hear();
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${old.dataset.part}"]`);
    if (fresh) replace(old, fresh);
  }
}

function replace(old, fresh) {
  for (const box of fresh.querySelectorAll("details[id]")) {
    const before = document.getElementById(box.id);
    if (before && before.open) box.open = true;
  }
  if (old.outerHTML === fresh.outerHTML || old.contains(busy())) return;
  old.replaceWith(document.adoptNode(fresh));
}

// Whoever types, has ticked a box or stands on a row is not interrupted.
function busy() {
  const chosen = document.querySelector("[data-part] input:checked");
  const active = document.activeElement;
  return chosen || (active && active !== document.body ? active : null);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return hush();
  hear();
  tellTimes();
  listen();
  if (live) refresh();
});
addEventListener("pagehide", hush);
listen();

// How long ago something was goes on while a page stays open, by the server's clock.
const words = document.documentElement.dataset;
const ahead = Date.parse(words.now) - Date.now();
const SPANS = [[86400000, words.days], [3600000, words.hours], [60000, words.minutes], [1000, words.seconds]];

function tellTimes() {
  for (const one of document.querySelectorAll("time[data-since]")) {
    const distance = Date.now() + ahead - Date.parse(one.dateTime);
    const [size, text] = SPANS.find(([size]) => Math.abs(distance) >= size) || [];
    const span = text && text.replace("{}", Math.floor(Math.abs(distance) / size));
    one.textContent = span ? (distance > 0 ? words.ago : words.ahead).replace("{}", span) : words.moment;
  }
}

setInterval(() => {
  if (document.hidden) return;
  tellTimes();
  tellSilence();
}, 5000);

// Keys: / to the filter, j and k from row to row, r to re-drive the row or what the page is about.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const does = { "/": toFilter, j: () => step(1), k: () => step(-1), r: redrive }[event.key];
  if (does && does() !== false) event.preventDefault();
});

function toFilter() {
  const box = document.querySelector("input[type=search]");
  if (!box) return false;
  box.focus();
  box.select();
}

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return false;
  const at = rows.indexOf(document.activeElement.closest("[data-row]"));
  const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
  next.querySelector("a").focus();
}

function redrive() {
  const row = document.activeElement.closest("[data-row]");
  const link = row ? row.querySelector("[data-redrive]") : document.querySelector("main [data-redrive]:not([data-row] *)");
  if (!link) return false;
  link.click();
}

// On a narrow screen the pages stand in a row that scrolls: show which one this is.
document.querySelector("header nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Suggestions: what could stand where the filter's last word begins.
const box = document.querySelector("input[type=search][data-suggest]");
let asked = 0;
if (box) box.addEventListener("input", suggest);

async function suggest() {
  const mine = ++asked;
  await new Promise((done) => setTimeout(done, 100));
  if (mine !== asked) return;
  const answer = await fetch(`${box.dataset.suggest}?text=${encodeURIComponent(box.value)}`).catch(() => null);
  const found = answer && answer.ok ? await answer.json() : [];
  if (mine !== asked) return;
  document.getElementById(box.getAttribute("list")).replaceChildren(
    ...found.map((text) => Object.assign(document.createElement("option"), { value: text })),
  );
}

// Copying, going back to a form with what was typed, and a box that ticks all of a page.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "✓";
  });
}
for (const button of document.querySelectorAll("[data-back]")) {
  button.hidden = history.length < 2;
  button.addEventListener("click", () => history.back());
}
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-tick-all]")) return;
  for (const one of event.target.closest("form").querySelectorAll("input[name=ids]")) {
    one.checked = event.target.checked;
  }
});
