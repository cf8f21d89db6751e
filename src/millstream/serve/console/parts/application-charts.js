// The last hour of an application, as the server has kept it.

import { Chart, COLOURS } from "../lib/charts.js";
import { bytes, compact, duration, rate } from "../lib/format.js";
import { Empty, Loading, Panel, html } from "../lib/ui.js";

const CHARTS = [
  {
    title: "Records per second",
    format: rate,
    series: [
      ["rate_in", "in"],
      ["rate_out", "out"],
    ],
  },
  { title: "Lag", format: compact, series: [["lag", "records behind"]], colour: "--series-3" },
  {
    title: "Latency, 95th percentile",
    format: duration,
    series: [
      ["latency_ms", "event time"],
      ["processing_ms", "processing"],
    ],
  },
  {
    title: "Stream time behind the clock",
    format: duration,
    series: [["stream_lag_ms", "behind"]],
    colour: "--series-5",
  },
  { title: "State", format: bytes, series: [["state_bytes", "size"]], colour: "--series-4" },
  { title: "Memory", format: bytes, series: [["memory_bytes", "processes"]], colour: "--series-6" },
  {
    title: "Dropped records per second",
    format: rate,
    series: [
      ["dropped", "dropped"],
      ["late", "late"],
      ["failed", "failed"],
      ["dead_letters", "dead letters"],
      ["violations", "contract violations"],
    ],
    isSparse: true,
  },
];

const isKnown = (values) => values?.some((value) => value !== null && value !== undefined);
const isUsed = (values) => values?.some((value) => value);

/**
 * The charts.
 *
 * @param history { data, error }: the answer of the route.
 * @param unit "batch" or "commit".
 */
export function ApplicationCharts({ history, unit }) {
  if (history.error?.isMissing) return html`<${Panel}><${Empty}>This server keeps no history of applications.<//><//>`;
  if (!history.data) return html`<${Panel}><${Loading} /><//>`;
  const { times, series, phases } = history.data;
  const charts = CHARTS.map((chart) => ({
    ...chart,
    series: chart.series
      .filter(([name], at) => isKnown(series[name]) && (at === 0 || !chart.isSparse || isUsed(series[name])))
      .map(([name, label]) => ({ label, values: series[name], ...(chart.colour && { colour: chart.colour }) })),
  })).filter((chart) => chart.series.length);
  const steps = Object.entries(phases ?? {})
    .filter(([, values]) => isKnown(values))
    .map(([label, values], at) => ({ label, values, colour: COLOURS[at % COLOURS.length] }));
  if (!steps.length && isKnown(series.commit_ms)) steps.push({ label: unit, values: series.commit_ms });
  if (steps.length) {
    const title = unit === "batch" ? "Batch time by phase" : "Commit time by phase";
    charts.splice(Math.min(3, charts.length), 0, { title, format: duration, series: steps, stacked: steps.length > 1 });
  }
  if (!charts.length) return html`<${Panel}><${Empty}>There are no figures yet.<//><//>`;
  return html`<div class="charts">${charts.map(
    (chart) => html`<${Panel} key=${chart.title} title=${chart.title}>
      <${Chart} label=${chart.title} times=${times} series=${chart.series} format=${chart.format} stacked=${chart.stacked} />
    <//>`,
  )}</div>`;
}
