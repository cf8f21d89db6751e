// The answer to a query: rows as they come, as a table or as a chart; and the records of PRINT.

import { Chart } from "../lib/charts.js";
import { compact, count, counted, dateTime } from "../lib/format.js";
import { runQuery } from "../lib/query-stream.js";
import { Empty, Panel, Problem, Table, Tag, Value, html, useEffect, useMemo, useRef, useState } from "../lib/ui.js";

const MOST_ROWS = 1_000;
const MOST_SHOWN = 200;
const MOST_SERIES = 6;
const SHOW_MS = 150;
const TIMES = new Set(["ROWTIME", "WINDOWSTART", "WINDOWEND"]);

const isNumber = (column) => /^(INT|INTEGER|BIGINT|DOUBLE|DECIMAL)\b/.test(column.type);
const isTime = (column) =>
  column.type === "TIMESTAMP" || (TIMES.has(column.name.toUpperCase()) && column.type === "BIGINT");
const msOf = (value) =>
  typeof value === "number" ? value : Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(value ?? "") ? value : `${value}Z`);

/** Runs a query while it is mounted: { columns, rows, lines, count, status, error, final, stop }. */
function useQuery(text, session) {
  const [shown, setShown] = useState({
    columns: [],
    rows: [],
    lines: [],
    count: 0,
    status: "running",
    error: null,
    final: null,
  });
  const abort = useRef(null);
  useEffect(() => {
    const mine = new AbortController();
    abort.current = mine;
    const all = { columns: [], rows: [], lines: [], count: 0, status: "running", error: null, final: null };
    let timer = null;
    let isOver = false;
    const show = () => {
      timer ??= setTimeout(() => {
        timer = null;
        if (!isOver) setShown({ ...all });
      }, SHOW_MS);
    };
    const add = (name, items) => {
      all[name] = [...[...items].reverse(), ...all[name]].slice(0, MOST_ROWS); // the newest first
      all.count += items.length;
      show();
    };
    let number = 0;
    runQuery(text, session, mine.signal, {
      header: (columns) => {
        all.columns = columns;
        show();
      },
      rows: (rows) =>
        add(
          "rows",
          rows.map((row) => ({ ...row, number: number++, at: Date.now() })),
        ),
      lines: (lines) =>
        add(
          "lines",
          lines.map((line) => ({ line, number: number++ })),
        ),
      final: (message) => {
        all.final = message;
      },
    })
      .then(
        () => {
          all.status = "ended";
        },
        (error) => {
          all.status = mine.signal.aborted ? "stopped" : "failed";
          if (!mine.signal.aborted) all.error = error;
        },
      )
      .finally(show);
    return () => {
      isOver = true;
      clearTimeout(timer);
      mine.abort();
    };
  }, []);
  return { ...shown, stop: () => abort.current?.abort() };
}

const STATUS = {
  running: ["busy", "running"],
  ended: ["good", "complete"],
  stopped: ["calm", "stopped"],
  failed: ["bad", "failed"],
};

function Cell({ column, value }) {
  if (isTime(column) && typeof value === "number") return html`<span title=${value}>${dateTime(value)}</span>`;
  return html`<${Value} value=${value} />`;
}

/** The newest row of each value of a column, without those that were deleted. */
function latestPer(rows, at) {
  const latest = new Map();
  for (const row of rows) {
    const key = JSON.stringify(row.columns[at]);
    if (!latest.has(key)) latest.set(key, row);
  }
  return [...latest.values()].filter((row) => !row.tombstone);
}

function Rows({ columns, rows, per, isPush }) {
  const at = columns.findIndex((column) => column.name === per);
  const all = useMemo(() => (at < 0 ? rows : latestPer(rows, at)), [rows, at]);
  // A pull query keeps its order; of a push query, the newest row is the first.
  const shown = (isPush ? all : [...all].reverse()).slice(0, MOST_SHOWN);
  const table = columns.map((column, number) => ({
    title: html`<span title=${column.type}>${column.name}</span>`,
    kind: isNumber(column) && !isTime(column) ? "number" : "code",
    cell: (row) => html`<${Cell} column=${column} value=${row.columns[number]} />`,
  }));
  if (rows.some((row) => row.tombstone))
    table.push({ title: "", kind: "narrow", cell: (row) => row.tombstone && html`<${Tag} tone="warn">deleted<//>` });
  const identity = (row) => (at < 0 ? row.number : JSON.stringify(row.columns[at]));
  return html`<${Table} label="Result" columns=${table} rows=${shown} keyOf=${identity} />
    ${all.length > shown.length && html`<p class="below">${isPush ? "The newest" : "The first"} ${count(shown.length)} of ${count(all.length)} rows are shown.</p>`}`;
}

/** The points of a chart: x is a time of the rows or of their arrival, y a number; a line for each value of `by`. */
function pointsOf(columns, rows, { x, y, by }) {
  const place = (name) => columns.findIndex((column) => column.name === name);
  const [atX, atY, atBy] = [place(x), place(y), place(by)];
  const points = new Map();
  const names = new Set();
  for (const row of [...rows].reverse()) {
    if (row.tombstone) continue;
    const time = atX < 0 ? row.at : msOf(row.columns[atX]);
    const value = row.columns[atY];
    if (!Number.isFinite(time) || (value !== null && typeof value !== "number")) continue;
    const name = atBy < 0 ? y : String(row.columns[atBy] ?? "null");
    names.add(name);
    if (!points.has(time)) points.set(time, {});
    points.get(time)[`$${name}`] = value;
  }
  const times = [...points.keys()].sort((one, other) => one - other);
  const shown = [...names].slice(0, MOST_SERIES);
  return {
    times,
    series: shown.map((name) => ({
      label: name,
      spanGaps: true,
      values: times.map((time) => points.get(time)[`$${name}`] ?? null),
    })),
    hidden: names.size - shown.length,
  };
}

function ResultChart({ columns, rows }) {
  const numbers = columns.filter((column) => isNumber(column) && !isTime(column));
  const times = columns.filter(isTime);
  const names = columns.filter(
    (column) => /^(VARCHAR|STRING|BOOLEAN)/.test(column.type) || (isNumber(column) && column.isKey),
  );
  const [choice, setChoice] = useState(() => ({
    x: (times.find((column) => column.name === "WINDOWSTART") ?? times[0])?.name ?? "",
    y: numbers.at(-1).name,
    by: names[0]?.name ?? "",
  }));
  const { times: moments, series, hidden } = useMemo(() => pointsOf(columns, rows, choice), [rows, choice]);
  const select = (
    name,
    title,
    options,
  ) => html`<label>${title}<select aria-label=${title} value=${choice[name]} onChange=${(event) => setChoice({ ...choice, [name]: event.target.value })}>
    ${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label>`;
  const of = (list) => list.map((column) => [column.name, column.name]);
  return html`<div class="form controls">
      ${select("y", "Number", of(numbers))}
      ${select("x", "Over", [["", "the time of arrival"], ...of(times)])}
      ${select("by", "A line for each", [["", "– one line –"], ...of(names)])}
    </div>
    ${moments.length > 1 ? html`<${Chart} label=${`${choice.y} over time`} times=${moments} series=${series} format=${compact} height=${240} />` : html`<${Empty}>A chart needs rows of two times at least.<//>`}
    ${hidden > 0 && html`<p class="below">The first ${MOST_SERIES} of ${count(hidden + MOST_SERIES)} lines are shown.</p>`}`;
}

/** The result of a SELECT or PRINT. It runs until it ends, is stopped, or is no longer shown. */
export function QueryResult({ text, session, onError }) {
  const answer = useQuery(text, session);
  const [view, setView] = useState("table");
  const [per, setPer] = useState("");
  const { columns, rows, status } = answer;
  const isPrint = /^\s*PRINT\b/i.test(text);
  const isPush = /\bEMIT\s+(CHANGES|FINAL)\b/i.test(text);
  const [tone, word] = STATUS[status];
  const hasChart = columns.some((column) => isNumber(column) && !isTime(column)) && !isPrint;
  useEffect(() => {
    if (answer.error) onError?.(answer.error);
  }, [answer.error]);
  const aside = html`<${Tag} tone=${tone}>${word}<//><span role="status">${counted(answer.count, isPrint ? "line" : "row")}</span>
    ${
      isPush &&
      columns.length > 0 &&
      view === "table" &&
      html`<label>show <select aria-label="Show" value=${per} onChange=${(event) => setPer(event.target.value)}>
      <option value="">each change</option>${columns.map((column) => html`<option value=${column.name}>the latest by ${column.name}</option>`)}</select></label>`
    }
    ${hasChart && html`<button aria-pressed=${view === "chart"} onClick=${() => setView(view === "chart" ? "table" : "chart")}>Chart</button>`}
    ${status === "running" && html`<button onClick=${answer.stop}>Stop</button>`}`;
  return html`<${Panel} class="result" title=${html`<code>${text}</code>`} aside=${aside}>
    ${answer.error && html`<${Problem} error=${answer.error} />`}
    ${isPrint && answer.lines.length > 0 && html`<pre class="json lines">${answer.lines.map(({ line }) => line).join("\n")}</pre>`}
    ${!isPrint && view === "table" && columns.length > 0 && rows.length > 0 && html`<${Rows} columns=${columns} rows=${rows} per=${per} isPush=${isPush} />`}
    ${!isPrint && view === "chart" && hasChart && html`<${ResultChart} columns=${columns} rows=${rows} />`}
    ${!answer.error && answer.count === 0 && html`<${Empty}>${status === "running" ? "No rows yet." : "There are no rows."}<//>`}
    ${answer.final && html`<p class="below">${answer.final}</p>`}
  <//>`;
}
