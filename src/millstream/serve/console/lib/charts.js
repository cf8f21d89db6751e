// Charts over time by uPlot, and small ones in lines of text.

import { html, useEffect, useRef, useState } from "./ui.js";
import { clock, compact } from "./format.js";

let library = null;

/** Loads uPlot once. It is a classic script that defines a global name. */
function load() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "vendor/uplot.js";
    script.onload = () => resolve(window.uPlot);
    script.onerror = () => {
      library = null;
      reject(new Error("the library for charts could not be loaded"));
    };
    document.head.append(script);
  });
  return library;
}

const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colours of series, as design tokens. */
export const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];

function options(series, { width, height, format, stacked, valueAt }) {
  const axis = { stroke: token("--muted"), grid: { stroke: token("--line"), width: 1 }, ticks: { show: false } };
  const font = `11px ${token("--font")}`;
  return {
    width,
    height,
    padding: [8, 28, 0, 0],
    legend: { live: true, markers: { width: 2 } },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_chart, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, font, size: 30, space: 70, grid: { show: false }, values: TIMES },
      { ...axis, font, size: 62, values: (_chart, splits) => splits.map((value) => format(value)) },
    ],
    series: [
      { value: (_chart, seconds) => (seconds === null ? "–" : clock(seconds * 1000)) },
      ...series.map((each, number) => {
        const colour = token(each.colour ?? COLOURS[number % COLOURS.length]);
        return {
          label: each.label,
          stroke: colour,
          width: 1.6,
          fill: stacked || series.length === 1 ? `${colour}22` : undefined,
          points: { show: false },
          spanGaps: each.spanGaps ?? false,
          value: (_chart, _shown, number, at) => valueAt(number - 1, at),
        };
      }),
    ],
  };
}

const TIMES = (_chart, splits) =>
  splits.map((seconds) =>
    new Date(seconds * 1000).toLocaleTimeString([], {
      hour: "2-digit",
      minute: "2-digit",
      second: splits[1] - splits[0] < 60 ? "2-digit" : undefined,
      hour12: false,
    }),
  );

/** Adds up the values of series, so that each stands on the one before. */
function stack(values) {
  const total = [];
  return values.map((row) => row.map((value, at) => (total[at] = (total[at] ?? 0) + (value ?? 0))));
}

/**
 * A chart over time.
 *
 * @param times milliseconds, ascending.
 * @param series [{ label, values, colour }]; null where nothing is known.
 * @param format turns a value into text.
 * @param stacked whether series stand on each other.
 */
export function Chart({ times, series, format = compact, height = 150, stacked = false, label }) {
  const place = useRef();
  const chart = useRef(null);
  const [failed, setFailed] = useState(null);
  const [theme, setTheme] = useState(0);
  const shape = JSON.stringify([series.map((each) => [each.label, each.colour]), stacked, height, theme]);
  const values = series.map((each) => each.values);
  const shown = stacked ? stack(values).reverse() : values;
  const data = [times.map((ms) => ms / 1000), ...shown];
  const latest = useRef();
  latest.current = { data, values: stacked ? [...values].reverse() : values };

  /** The legend shows the value of a series itself, at the cursor or else the last. */
  function valueAt(number, at) {
    const value = at === null ? null : latest.current.values[number]?.[at];
    return value === null || value === undefined ? "–" : format(value);
  }

  function showLast() {
    setTimeout(() => {
      // uPlot empties the legend when it draws, which it does after this call.
      const last = latest.current.data[0].length - 1;
      if (chart.current && !(chart.current.cursor.left >= 0) && last >= 0) chart.current.setLegend({ idx: last });
    });
  }

  useEffect(() => {
    const changed = () => setTheme((number) => number + 1);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", changed);
    window.addEventListener("millstream:theme", changed);
    return () => {
      scheme.removeEventListener("change", changed);
      window.removeEventListener("millstream:theme", changed);
    };
  }, []);

  useEffect(() => {
    const element = place.current;
    let isOver = false;
    let observer = null;
    load().then((uPlot) => {
      if (isOver) return;
      const size = () => ({ width: Math.max(120, element.clientWidth - 12), height });
      const ordered = stacked
        ? series.map((each, at) => ({ colour: COLOURS[at % COLOURS.length], ...each })).reverse()
        : series;
      chart.current = new uPlot(
        options(ordered, { ...size(), format, stacked, valueAt }),
        latest.current.data,
        element,
      );
      element.addEventListener("mouseleave", showLast);
      showLast();
      observer = new ResizeObserver(() => chart.current?.setSize(size()));
      observer.observe(element);
    }, setFailed);
    return () => {
      isOver = true;
      element.removeEventListener("mouseleave", showLast);
      observer?.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [shape]);

  useEffect(() => {
    chart.current?.setData(data);
    showLast();
  }, [times, ...values]);

  if (failed) return html`<p class="empty">${failed.message}</p>`;
  return html`<div class="chart" ref=${place} role="img" aria-label=${label}></div>`;
}

/** A line of the last values without axes: for a row of a table. */
export function Sparkline({ values, width = 110, height = 26, colour = "--series-1" }) {
  const points = (values ?? []).slice(-60);
  const top = Math.max(1e-9, ...points.map((value) => value ?? 0));
  const step = width / Math.max(1, points.length - 1);
  let line = "";
  points.forEach((value, at) => {
    if (value === null || value === undefined) return;
    const y = height - 2 - (value / top) * (height - 4);
    const before = points[at - 1];
    line += `${line && before !== null && before !== undefined ? "L" : "M"}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
  });
  return html`<svg class="sparkline" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} aria-hidden="true">
    <path d=${line} style=${{ stroke: `var(${colour})` }} />
  </svg>`;
}
