// Keys: "g o" goes to a page, "/" to the search field, j and k move over rows, Enter opens, Esc closes, "?" helps.

import { go, href } from "./router.js";

const SEQUENCE_MS = 1200;

/** The rows of a page: elements with the attribute data-row. The focus marks the selected one. */
function move(step) {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.getClientRects().length);
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement?.closest("[data-row]"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

const isField = (element) =>
  element instanceof HTMLElement &&
  (element.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName));

/**
 * Listens to keys until the returned function is called.
 *
 * @param pages [{ key, page }]: the letters behind g.
 * @param onHelp called at "?".
 */
export function listen(pages, onHelp) {
  let startedAt = -Infinity;
  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape") {
      if (isField(document.activeElement)) document.activeElement.blur();
      else document.dispatchEvent(new CustomEvent("millstream:escape"));
      return;
    }
    if (isField(event.target) || document.querySelector("dialog[open]")) return;
    if (event.timeStamp - startedAt < SEQUENCE_MS) {
      startedAt = -Infinity;
      const target = pages.find((each) => each.key === event.key);
      if (target) {
        event.preventDefault();
        go(href(target.page ? [target.page] : []));
        return;
      }
    }
    if (event.key === "g") startedAt = event.timeStamp;
    else if (event.key === "?") onHelp();
    else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
    else if (event.key === "/") {
      const field = document.querySelector("main [data-search]");
      if (field) {
        event.preventDefault();
        field.focus();
        field.select?.();
      }
    } else if (event.key === "Enter" && event.target.matches?.("[data-row]")) event.target.click();
  }
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}

/** Calls a function at Esc, outside of fields: for panels that close. */
export function onEscape(close) {
  document.addEventListener("millstream:escape", close);
  return () => document.removeEventListener("millstream:escape", close);
}
