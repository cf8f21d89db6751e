// The rows of a store: all of them, or those of a key, a prefix, a range, a time.

import { useData } from "../lib/data.js";
import { ago, clock, counted, dateTime, fieldOf, msOfField } from "../lib/format.js";
import { usePages } from "../lib/pages.js";
import { go, href } from "../lib/router.js";
import { hasTextKeys, keyText, rowIdentity } from "../lib/store-keys.js";
import {
  Empty,
  Facts,
  Json,
  Loading,
  Panel,
  Problem,
  Table,
  Value,
  html,
  useEffect,
  useRef,
  useState,
} from "../lib/ui.js";

const PAGE = 100;
const MOST_ROWS = 5_000;
const FRESH_MS = 2_000;
const WAYS = { all: "all rows", key: "a key", prefix: "a prefix", range: "a range of keys" };
const FIELDS = ["by", "key", "prefix", "from", "to", "time_from", "time_to", "as_of", "reverse"];

function parametersOf(query) {
  const parameters = {
    limit: PAGE,
    reverse: query.reverse === "1" ? true : null,
    time_from: query.time_from,
    time_to: query.time_to,
    as_of: query.as_of,
  };
  if (query.by === "key") parameters.key = query.key;
  if (query.by === "prefix") parameters.prefix = query.prefix;
  if (query.by === "range") Object.assign(parameters, { from: query.from, to: query.to });
  return parameters;
}

/** A row has a window, an interval of validity, or a timestamp. */
export function Times({ row }) {
  const { window } = row;
  if (window) {
    const end =
      window.end === null || window.end === undefined
        ? ""
        : ` – ${Math.abs(window.end - window.start) < 86_400_000 ? clock(window.end) : dateTime(window.end)}`;
    return html`<span title=${`${window.start} – ${window.end ?? "open"}`}>${dateTime(window.start)}${end}</span>`;
  }
  if (row.valid_from !== undefined) {
    const isLast = row.valid_to === null || row.valid_to === undefined;
    return html`<span title=${`${row.valid_from} – ${row.valid_to ?? ""}`}>${dateTime(row.valid_from)} – ${isLast ? "now" : dateTime(row.valid_to)}</span>`;
  }
  return row.timestamp === null || row.timestamp === undefined
    ? null
    : html`<span title=${row.timestamp}>${dateTime(row.timestamp)}</span>`;
}

export const timesTitle = (store) =>
  ({ window: "Window", session: "Session", versioned: "Valid" })[store.kind] ?? "Time";

/** The form of a query. It is in the address once it is sent. */
function Query({ store, query, address }) {
  const [form, setForm] = useState({});
  useEffect(
    () => setForm(Object.fromEntries(FIELDS.map((name) => [name, query[name] ?? ""]))),
    [FIELDS.map((name) => query[name]).join("\n")],
  );
  const set = (changes) => setForm((last) => ({ ...last, ...changes }));
  const by = WAYS[form.by] ? form.by : "all";
  const hint = hasTextKeys(store) ? "text" : 'JSON: 5, "a", ["a",1]';
  const field = (
    name,
    title,
    isSearch = false,
  ) => html`<label class="grow">${title}<input value=${form[name] ?? ""} placeholder=${hint} spellcheck="false" autocapitalize="off"
    ...${isSearch ? { "data-search": "" } : {}} onInput=${(event) => set({ [name]: event.target.value })} /></label>`;
  const time = (name, title) =>
    html`<label>${title}<input type="datetime-local" step="1" value=${fieldOf(form[name])} onChange=${(event) => set({ [name]: msOfField(event.target.value) })} /></label>`;
  function submit(event) {
    event.preventDefault();
    const kept = { key: ["key"], prefix: ["prefix"], range: ["from", "to"], all: [] }[by];
    const sent = Object.fromEntries(
      FIELDS.map((name) => [
        name,
        ["key", "prefix", "from", "to"].includes(name) && !kept.includes(name) ? "" : form[name],
      ]),
    );
    go(address({ ...sent, by: by === "all" ? "" : by }), { replace: true });
  }
  const hasTimes = ["window", "session", "versioned"].includes(store.kind);
  return html`<form class="form controls" onSubmit=${submit}>
    <label>Find<select aria-label="Find" value=${by} onChange=${(event) => set({ by: event.target.value })}>${Object.entries(WAYS).map(([id, title]) => html`<option value=${id}>${title}</option>`)}</select></label>
    ${by === "key" && field("key", "Key", true)}
    ${by === "prefix" && field("prefix", "Prefix", true)}
    ${by === "range" && [field("from", "From key", true), field("to", "To key")]}
    ${hasTimes && time("time_from", store.kind === "versioned" ? "Versions from" : "Starts from")}
    ${hasTimes && time("time_to", "to")}
    ${store.kind === "versioned" && time("as_of", "As of")}
    <label>Order<select aria-label="Order" value=${form.reverse ?? ""} onChange=${(event) => set({ reverse: event.target.value })}><option value="">ascending</option><option value="1">descending</option></select></label>
    <button class="primary">Find</button>
  </form>`;
}

/** Which rows differ from those that the page showed before. */
function useChanged(rows) {
  const last = useRef({ rows: null, values: new Map(), changed: new Set() });
  if (rows && last.current.rows !== rows) {
    const values = new Map(
      rows.map((row) => [rowIdentity(row), JSON.stringify([row.value ?? row.value_base64, row.timestamp])]),
    );
    const isFirst = last.current.rows === null;
    const before = last.current.values;
    const changed = new Set(
      [...values].filter(([id, value]) => !isFirst && before.get(id) !== value).map(([id]) => id),
    );
    last.current = { rows, values, changed };
  }
  return last.current.changed;
}

/** The rest of a row, and what can be done with its key. */
function Row({ store, row, address }) {
  const text = keyText(store, row);
  const actions =
    text === null || (row.window && store.kind === "key-value")
      ? null
      : html`<div class="actions">
    <button onClick=${() => go(address({ watch: text }))}>Watch this key</button>
    ${["window", "session"].includes(store.kind) && html`<button onClick=${() => go(address({ by: "key", key: text, cursor: null }))}>All windows of this key</button>`}
    ${store.kind === "versioned" && html`<button onClick=${() => go(address({ by: "key", key: text, time_from: "0", as_of: "" }))}>All versions of this key</button>`}
  </div>`;
  const part = (
    name,
  ) => html`<div><h3>${name === "key" ? "Key" : "Value"}${row[name] === undefined && row[`${name}_base64`] !== undefined && html` <small>base64</small>`}</h3>
    <${Json} value=${row[name] ?? row[`${name}_base64`]} /></div>`;
  return html`<div class="record">
    <div class="key-and-value">${part("key")}${part("value")}</div>
    <${Facts} facts=${[
      [
        "timestamp",
        row.timestamp === null || row.timestamp === undefined ? null : dateTime(row.timestamp, { millis: true }),
      ],
      ["window from", row.window && dateTime(row.window.start, { millis: true })],
      ["window to", row.window && row.window.end !== null ? dateTime(row.window.end, { millis: true }) : null],
      ["valid from", row.valid_from === undefined ? null : dateTime(row.valid_from, { millis: true })],
      [
        "valid to",
        row.valid_to === undefined || row.valid_to === null ? null : dateTime(row.valid_to, { millis: true }),
      ],
    ]} />
    ${actions}
  </div>`;
}

/** Which commit the rows show. */
function Position({ answer }) {
  if (answer.committed === null || answer.committed === undefined) return html`<span>before the first commit</span>`;
  const title = `${dateTime(answer.committed, { millis: true })}, position ${answer.position}`;
  return html`<span title=${title}>last commit: ${ago(answer.committed, answer.committed + answer.age_ms)}</span>`;
}

export function StoreRows({ route, application, store, query }) {
  const address = (changes) => href(["stores", application, store.name], { ...query, ...changes });
  const [isFresh, setFresh] = useState(true);
  const parameters = parametersOf(query);
  const answer = useData(route, { parameters, every: isFresh ? FRESH_MS : 0 });
  const [open, setOpen] = useState(null);
  const pages = usePages(route, parameters, answer.data, "rows");
  const { first, items: rows, cursor } = pages;
  const changed = useChanged(first?.rows);
  function load() {
    setFresh(false);
    pages.load();
  }
  function refresh(isOn) {
    pages.restart();
    setFresh(isOn);
    if (!isOn) answer.reload();
  }
  const marked = (row) => (changed.has(rowIdentity(row)) ? "changed" : null);
  const columns = [
    { title: "Key", kind: "code", cell: (row) => html`<${Value} value=${row.key ?? row.key_base64} most=${120} />` },
    {
      title: rows.some((row) => row.window)
        ? timesTitle({ kind: store.kind === "session" ? "session" : "window" })
        : timesTitle(store),
      kind: "narrow times",
      cell: (row) => html`<${Times} row=${row} />`,
    },
    {
      title: "Value",
      kind: "wide",
      cell: (row) =>
        html`<span class=${marked(row)} key=${marked(row) ? JSON.stringify(row.value) : "same"}><${Value} value=${row.value ?? row.value_base64} /></span>`,
    },
  ];
  return html`<${Panel}><${Query} store=${store} query=${query} address=${address} /><//>
    ${answer.error && html`<${Problem} error=${answer.error} retry=${answer.reload} />`}
    <${Panel}>
      ${answer.isLoading && html`<${Loading} />`}
      ${
        first &&
        html`<p class="above"><${Position} answer=${first} />
        <label class="check"><input type="checkbox" checked=${isFresh} onChange=${(event) => refresh(event.target.checked)} /> keep up to date</label>
        ${!isFresh && html`<button class="plain" onClick=${() => refresh(false)}>Read again</button>`}</p>`
      }
      ${
        rows.length > 0 &&
        html`<${Table} label="Rows" columns=${columns} rows=${rows} keyOf=${rowIdentity} isOpen=${(row) => rowIdentity(row) === open}
        onOpen=${(row) => setOpen(rowIdentity(row) === open ? null : rowIdentity(row))} details=${(row) => html`<${Row} store=${store} row=${row} address=${address} />`} />`
      }
      ${first && !rows.length && html`<${Empty}>${query.by ? "No row matches." : "The store has no rows."}<//>`}
      ${pages.error && html`<${Problem} error=${pages.error} />`}
      ${
        rows.length > 0 &&
        html`<p class="below">
        ${cursor !== null && rows.length < MOST_ROWS && html`<button disabled=${pages.isBusy} onClick=${load}>More rows</button>`}
        <span>${counted(rows.length, "row")}${cursor === null ? "" : " so far"}</span></p>`
      }
    <//>`;
}
