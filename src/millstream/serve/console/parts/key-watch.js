// One key of a store: its value now, its last changes, and its numbers as a chart.

import { api } from "../lib/api.js";
import { Chart } from "../lib/charts.js";
import { useStreamState } from "../lib/data.js";
import { useFollowing } from "../lib/following.js";
import { clock, compact, counted } from "../lib/format.js";
import { eventRow, keyJson, numbersOf } from "../lib/store-keys.js";
import { Empty, Json, Loading, Panel, Table, Tag, Value, html, useMemo, useState } from "../lib/ui.js";
import { arrivalOf } from "./store-changes.js";
import { Times, timesTitle } from "./store-rows.js";

const MOST_SHOWN = 12;

const identity = (row) =>
  JSON.stringify([row.timestamp, row.window?.start, row.window?.end, row.valid_from, row.value ?? row.value_base64]);

/** The points of a chart: over the starts of windows, the last value of each; else over the time at which they came. */
function pointsOf(rows) {
  const points = new Map();
  let before = -Infinity;
  for (const row of [...rows].reverse()) {
    const time = row.window ? row.window.start : Math.max(before + 1, arrivalOf(row));
    before = time;
    points.set(time, numbersOf(row.value));
  }
  const times = [...points.keys()].sort((one, other) => one - other);
  const names = [...new Set(times.flatMap((time) => Object.keys(points.get(time))))];
  return {
    times,
    series: names.map((label) => ({ label, values: times.map((time) => points.get(time)[label] ?? null) })),
  };
}

/** The rows of windows, each once: the newest windows first. */
function windowsOf(rows) {
  const windows = new Map();
  for (const row of rows) {
    const id = `${row.window.start}/${row.window.end}`;
    if (!windows.has(id)) windows.set(id, row);
  }
  return [...windows.values()]
    .filter((row) => row.value !== null)
    .sort((one, other) => other.window.start - one.window.start);
}

/**
 * The panel.
 *
 * @param route of the rows of the store.
 * @param text the key as the route takes it.
 */
export function KeyWatch({ route, application, store, text, onClose }) {
  const stream = useStreamState();
  const [error, setError] = useState(null);
  const hasWindows = ["window", "session"].includes(store.kind);
  const {
    rows,
    count: number,
    isReady,
  } = useFollowing(`key:${application}/${store.name}/${keyJson(store, text)}`, {
    poll: async () => {
      try {
        const answer = await api.get(route, {
          key: text,
          limit: hasWindows ? 200 : 1,
          reverse: hasWindows ? true : null,
        });
        setError(null);
        return answer.rows;
      } catch (problem) {
        setError(problem);
        return [];
      }
    },
    identity,
    shape: (row) => eventRow(store, row),
  });
  const shown = useMemo(() => (hasWindows ? windowsOf(rows) : rows), [rows]);
  const { times, series } = useMemo(() => pointsOf(rows), [rows]);
  const columns = [
    ...(hasWindows ? [] : [{ title: "Came", kind: "narrow", cell: (row) => clock(arrivalOf(row), { millis: true }) }]),
    { title: timesTitle(store), kind: "narrow times", cell: (row) => html`<${Times} row=${row} />` },
    {
      title: "Value",
      kind: "wide",
      cell: (row) =>
        row.value === null
          ? html`<${Tag} tone="warn">deleted<//>`
          : html`<${Value} value=${row.value ?? row.value_base64} />`,
    },
  ];
  const latest = shown[0];
  return html`<${Panel} class="watch" title=${html`Key <code>${text}</code>`}
      aside=${html`<${Tag} tone=${stream === "live" ? "good" : "busy"}>${stream === "live" ? "live" : "asks every 2 s"}<//><span>${counted(number, "change")}</span>
        <button class="plain" onClick=${onClose} aria-label="Stop watching" title="Stop watching">✕</button>`}>
    ${error && html`<p class="above">${error.message}</p>`}
    ${!isReady && html`<${Loading} />`}
    ${isReady && !latest && html`<${Empty}>The key has no row. The page shows it as soon as it gets one.<//>`}
    ${
      latest &&
      html`<div class="watched ${series.length && times.length > 1 ? "with-chart" : ""}">
      <div class="now"><h3>${hasWindows ? "Newest window" : "Now"}</h3>
        ${typeof latest.value === "number" || typeof latest.value === "string" ? html`<p class="big changed" key=${identity(latest)}>${latest.value}</p>` : html`<${Json} value=${latest.value ?? latest.value_base64} />`}
        <small><${Times} row=${latest} /></small></div>
      ${series.length > 0 && times.length > 1 && html`<${Chart} label="The numbers of the key" times=${times} series=${series} format=${compact} height=${130} />`}
    </div>
    <${Table} label="Changes of the key" columns=${columns} rows=${shown.slice(0, MOST_SHOWN)} keyOf=${identity} />`
    }
  <//>`;
}
