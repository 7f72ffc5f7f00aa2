"use strict";
// What a page does besides: it stays live without a reload, tells times in the reader's zone, copies ids, sorts tables.
// Without this script it reloads, tells UTC, and has the order of the collector.
const MOMENT = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const ZONED = new Intl.DateTimeFormat("en", { timeZoneName: "short" });
const UNITS = { "%": 0.01, ms: 0.001, s: 1, min: 60, h: 3600, d: 86400 };
const LONGEST_WAIT = 10_000;
const sorted = new Map(); // By the number of a table on the page: the column that sorts it, and which way.

function zoned(at) {
  const zone = ZONED.formatToParts(at).find(part => part.type === "timeZoneName").value;
  return `${MOMENT.format(at)} ${zone}`;
}

function tellTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    const utc = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    each.title = `${zoned(at)} · ${utc}`;
    if ("moment" in each.dataset) each.textContent = zoned(at);
  }
}

function offerCopies(root) {
  for (const each of root.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${each.dataset.copy}`);
    each.append(" ", button);
  }
}

async function copy(button) {
  const text = button.closest("[data-copy]").dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = text; // A page without TLS may not copy: show all of it, to be copied by hand.
  }
}

function worth(row, column) {
  const cell = row.cells[column];
  const time = cell.querySelector("time[datetime]");
  if (time) return new Date(time.dateTime).valueOf();
  const text = (cell.querySelector("a") ?? cell).textContent.trim().replace(/\s+/g, " ");
  const number = /^\$?([\d,]+\.?\d*)\s*(%|ms|s|min|h|d)?(?![\w.])/.exec(text);
  return number ? Number(number[1].replaceAll(",", "")) * (UNITS[number[2]] ?? 1) : text.toLowerCase();
}

// Numbers before words, and what is not known at the end, whichever way.
function compare(one, other, way) {
  if ([one, other].includes("–")) return (one === "–") - (other === "–");
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return way * (typeof one === "number" ? one - other : one.localeCompare(other));
}

function sortTable(table, column, way) {
  const [body] = table.tBodies;
  const rows = [...body.rows].filter(row => row.cells.length === table.tHead.rows[0].cells.length);
  if (rows.length !== body.rows.length) return; // Folded rows belong to no column.
  rows.sort((one, other) => compare(worth(one, column), worth(other, column), way));
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((cell, number) => {
    if (number === column) cell.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
}

function offerSorting(root) {
  root.querySelectorAll("table.sortable").forEach((table, number) => {
    if (table.tBodies[0].rows.length < 2) return;
    for (const cell of table.tHead.rows[0].cells) {
      if (!cell.textContent.trim()) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.title = "Sort the rows of this page";
      button.append(...cell.childNodes);
      cell.append(button);
    }
    if (sorted.has(number)) sortTable(table, ...sorted.get(number));
  });
}

function sortBy(cell) {
  const table = cell.closest("table");
  const number = [...document.querySelectorAll("table.sortable")].indexOf(table);
  const first = cell.classList.contains("n") ? -1 : 1;
  const [column, way] = sorted.get(number) ?? [];
  sorted.set(number, [cell.cellIndex, column === cell.cellIndex ? -way : first]);
  sortTable(table, ...sorted.get(number));
}

function prepare(root) {
  tellTimes(root);
  offerCopies(root);
  offerSorting(root);
}

// What tells a row from the others, wherever it stands.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  return node.id || (node.matches("tr, li") && node.querySelector("a[href]")?.getAttribute("href")) || "";
}

// Make `old` like `fresh`, and keep each element that stays: with it its focus, its selection, and what is unfolded.
function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.isEqualNode(fresh) || old.matches("input:not([type=hidden]), select, textarea")) return;
  if (old.matches("figure.chart")) {
    if (old.dataset.chart !== fresh.dataset.chart) old.replaceWith(fresh);
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const coming = [...fresh.childNodes];
  const keys = new Set(coming.map(keyOf));
  const kept = new Map();
  for (const child of [...old.childNodes]) {
    const key = keyOf(child);
    if (!key) continue;
    if (keys.has(key) && !kept.has(key)) kept.set(key, child);
    else child.remove();
  }
  let place = old.firstChild;
  for (const next of coming) {
    const key = keyOf(next);
    const isAlike = place && !keyOf(place) && place.nodeName === next.nodeName;
    const same = key ? kept.get(key) : isAlike ? place : null;
    kept.delete(key);
    if (!same || same.nodeName !== next.nodeName) {
      old.insertBefore(next, place);
      continue;
    }
    if (same === place) place = place.nextSibling;
    else old.insertBefore(same, place);
    morph(same, next);
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

function swap(page) {
  const focused = document.activeElement;
  const main = page.querySelector("main");
  prepare(main);
  morph(document.querySelector("main"), main);
  // What moved has lost its focus.
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  dispatchEvent(new Event("swapped"));
}

let live = document.querySelector(".live");
let staleSince = null;
let waiting = null;

function wait(seconds) {
  clearTimeout(waiting);
  waiting = setTimeout(refresh, seconds * 1000);
}

async function refresh() {
  if (document.hidden || !live.isConnected) return;
  const asked = new Date();
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(LONGEST_WAIT) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.querySelector(".live");
    swap(page);
    staleSince = null;
    if (!next) {
      live.remove(); // What this page shows does not move any more.
      return;
    }
    morph(live, next);
    wait(Number(live.dataset.seconds));
  } catch {
    staleSince ??= asked;
    live.classList.add("stale");
    const words = `stale since ${zoned(staleSince).slice(11)}`;
    if (live.textContent !== words) live.textContent = words;
    live.title = "The collector does not answer. This page goes on as soon as it does.";
    wait(Math.min(Number(live.dataset.seconds), LONGEST_WAIT / 1000));
  }
}

// Pages of a single session, trace or problem have no scope of their own: from there, too, one comes back to the same.
function keepScope() {
  const names = ["environment", "range"];
  const asked = new URLSearchParams(location.search);
  if (document.querySelector("form.scope")) {
    const scope = names.filter(name => asked.get(name)).map(name => [name, asked.get(name)]);
    sessionStorage.setItem("scope", `${new URLSearchParams(scope)}`);
    return;
  }
  const scope = sessionStorage.getItem("scope");
  if (!scope) return;
  for (const each of document.querySelectorAll(".pages a, .brand")) each.search = scope;
}

document.addEventListener("click", event => {
  const button = event.target.closest("button.copy, button.sort");
  if (button?.matches(".copy")) copy(button);
  else if (button) sortBy(button.closest("th"));
});
prepare(document);
keepScope();
if (live) {
  wait(Number(live.dataset.seconds));
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
}
