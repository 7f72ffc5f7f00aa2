"use strict";
// Keys for the review queue. Without this script its buttons do the same.
const keyed = new Map([...document.querySelectorAll("[data-key]")].map(each => [each.dataset.key, each]));
const form = document.querySelector("form.verdict");
let sent = false;

form?.addEventListener("submit", event => {
  if (sent) event.preventDefault();
  sent = true;
});
// A page that the browser kept may be sent again.
addEventListener("pageshow", () => { sent = false; });

document.addEventListener("keydown", event => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const target = keyed.get(event.key.toLowerCase());
  if (!target || sent) return;
  event.preventDefault();
  if (target.matches("textarea")) target.focus();
  else target.click();
});

for (const hint of document.querySelectorAll("kbd")) hint.hidden = false;
