// The parts that all pages use. Data of users is text in all of them: nothing becomes HTML.

import htm from "../vendor/htm.js";
import { Fragment, createContext, h, render } from "../vendor/preact.js";
import { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { useNow } from "./data.js";
import { ago, dateTime, inline, pretty } from "./format.js";

export const html = htm.bind(h);
export { Fragment, createContext, render };
export { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** The user: { name, role, auth }. */
export const User = createContext({ name: "", role: "viewer", auth: true });

const ROLES = ["viewer", "operator", "admin"];

/** Whether the user has at least this role. */
export function useMay(role) {
  const user = useContext(User);
  return ROLES.indexOf(user.role) >= ROLES.indexOf(role);
}

/** The heading of a page: title, what stands beside it, and actions on the right. */
export function Head({ title, aside = null, actions = null }) {
  useEffect(() => {
    document.title = `${inline(title, 60)} · Millstream`;
  }, [title]);
  return html`<header class="head">
    <h1>${title}</h1>
    <div class="aside">${aside}</div>
    <div class="actions">${actions}</div>
  </header>`;
}

/** A box with a heading. */
export function Panel({ title = null, aside = null, children, class: more = "", id }) {
  return html`<section class=${`panel ${more}`} id=${id}>
    ${title !== null && html`<header><h2>${title}</h2><div class="aside">${aside}</div></header>`}
    ${children}
  </section>`;
}

const TONES = {
  RUNNING: "good",
  ENABLED: "good",
  resolved: "good",
  REBALANCING: "busy",
  CREATED: "busy",
  PENDING_SHUTDOWN: "busy",
  PENDING_ERROR: "bad",
  PAUSED: "warn",
  pending: "warn",
  ERROR: "bad",
  KILLED: "bad",
  FAILED: "bad",
  RESTARTING: "warn",
  FINISHED: "good",
  firing: "bad",
};

/** The state of an application, a query or an alert: a dot and its name. */
export function State({ state, late = false }) {
  const tone = late ? "warn" : (TONES[state] ?? "calm");
  return html`<span class=${`state ${tone}`} title=${late ? "it has not reported for a while" : null}>
    <i aria-hidden="true"></i>${state}${late && html`<small>late</small>`}
  </span>`;
}

/** A short mark. Tones: calm, good, busy, warn, bad. */
export const Tag = ({ tone = "calm", children, title }) =>
  html`<span class=${`tag ${tone}`} title=${title}>${children}</span>`;

/** An error of a request. */
export function Problem({ error, retry = null }) {
  if (!error) return null;
  return html`<div class="problem" role="alert">
    <strong>${error.message}</strong>
    ${error.hint && html`<p>${error.hint}</p>`}
    ${(error.problems ?? []).map((each) => html`<p>${each.at}: ${each.message}</p>`)}
    ${error.request && html`<small>request ${error.request}</small>`}
    ${retry && html`<button onClick=${retry}>Try again</button>`}
  </div>`;
}

/** What a page shows instead of rows. */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** What a page shows until the first answer. */
export const Loading = () => html`<p class="empty" aria-busy="true">…</p>`;

/** A time as an age; the exact time is in its title. */
export function Age({ ms }) {
  const now = useNow();
  return html`<time title=${dateTime(ms, { millis: true })}>${ago(ms, now)}</time>`;
}

/** A value of a record on one line: text, JSON, or null. */
export function Value({ value, most = 300 }) {
  if (value === null || value === undefined) return html`<span class="null">null</span>`;
  return html`<code class="value">${inline(value, most)}</code>`;
}

/** A value of a record on several lines. */
export const Json = ({ value }) =>
  value === null || value === undefined
    ? html`<pre class="json"><span class="null">null</span></pre>`
    : html`<pre class="json">${pretty(value)}</pre>`;

/**
 * A table whose rows the keys j and k select.
 *
 * @param columns [{ title, cell(row), kind: "number" | "code" | "wide" | "narrow" }]
 * @param rows the rows.
 * @param keyOf returns the identity of a row.
 * @param onOpen called with a row at a click or Enter.
 * @param isOpen whether a row is open.
 * @param details returns what is shown below an open row.
 */
export function Table({ columns, rows, keyOf, onOpen = null, isOpen = () => false, details = null, label }) {
  return html`<div class="scroll"><table aria-label=${label}>
    <thead><tr>${columns.map((column) => html`<th class=${column.kind}>${column.title}</th>`)}</tr></thead>
    <tbody>
      ${rows.map(
        (row) => html`<${Fragment} key=${keyOf(row)}>
        <tr
          data-row=${onOpen ? "" : null}
          tabindex=${onOpen ? 0 : null}
          class=${isOpen(row) ? "open" : null}
          onClick=${onOpen ? (event) => !event.target.closest("a, button") && onOpen(row) : null}
        >
          ${columns.map((column) => html`<td class=${column.kind}>${column.cell(row)}</td>`)}
        </tr>
        ${details && isOpen(row) && html`<tr class="details"><td colspan=${columns.length}>${details(row)}</td></tr>`}
      <//>`,
      )}
    </tbody>
  </table></div>`;
}

/** Facts as pairs of name and value: [[name, value]]; those whose value is null are left out. */
export const Facts = ({ facts }) => html`<dl class="facts">
  ${facts
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
</dl>`;

/** A dialog over the page. Esc closes it. */
export function Dialog({ title, onClose, children, class: more = "" }) {
  const element = useRef();
  useEffect(() => {
    element.current.showModal();
  }, []);
  return html`<dialog ref=${element} class=${more} onClose=${onClose} aria-label=${title}
    onClick=${(event) => event.target === element.current && onClose()}>
    <div class="dialog">
      <header><h2>${title}</h2><button class="plain" onClick=${onClose} aria-label="Close">✕</button></header>
      ${children}
    </div>
  </dialog>`;
}

/**
 * A button that runs a request and shows its error.
 *
 * @param run returns the promise of the request.
 * @param confirm a question that must be confirmed; null: none.
 */
export function Action({ run, confirm = null, children, class: more = "", disabled = false, title }) {
  const [state, setState] = useState("ready");
  const [error, setError] = useState(null);
  async function start() {
    setState("busy");
    try {
      await run();
      setError(null);
    } catch (problem) {
      setError(problem);
    }
    setState("ready");
  }
  return html`<button class=${more} title=${title} disabled=${disabled || state === "busy"}
      onClick=${() => (confirm ? setState("asking") : start())}>${children}</button>
    ${
      state === "asking" &&
      html`<${Dialog} title=${confirm.title ?? "Please confirm"} onClose=${() => setState("ready")}>
      <p>${confirm.text}</p>
      <footer><button onClick=${() => setState("ready")}>Cancel</button>
        <button class="primary" onClick=${start}>${confirm.yes ?? "Continue"}</button></footer>
    <//>`
    }
    ${
      error &&
      html`<${Dialog} title="That did not work" onClose=${() => setError(null)}><${Problem} error=${error} /><//>`
    }`;
}

/** Links that choose a part of a page: [{ id, title, href }]. */
export const Tabs = ({ tabs, current }) => html`<nav class="tabs">
  ${tabs.map((each) => html`<a href=${each.href} aria-current=${each.id === current ? "page" : null}>${each.title}</a>`)}
</nav>`;
