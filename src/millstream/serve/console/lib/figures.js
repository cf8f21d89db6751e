// Figures of applications: counters as rates, and short series that the page collects itself.

import { useRef } from "../vendor/hooks.js";

const SPAN_MS = 10_000;
const MOST_POINTS = 120;

/** Turns counters that only grow into numbers per second, over the last seconds. */
export class Rates {
  constructor() {
    this.run = null;
    this.samples = [];
  }

  /** Adds the counters at a time, in milliseconds. Those of another run start again. */
  add(time, run, counts) {
    const last = this.samples.at(-1);
    if (run !== this.run) this.samples = [];
    else if (last && time <= last.time) return;
    this.run = run;
    this.samples.push({ time, counts });
    while (this.samples.length > 2 && this.samples[1].time < time - SPAN_MS) this.samples.shift();
  }

  /** The rate of a counter; null if it is not known yet. */
  of(name) {
    const last = this.samples.at(-1);
    const first = this.samples.find((sample) => sample.counts[name] !== undefined);
    if (!last || !first || first === last || last.counts[name] === undefined) return null;
    return Math.max(0, ((last.counts[name] - first.counts[name]) * 1000) / (last.time - first.time));
  }
}

const total = (counts) => Object.values(counts ?? {}).reduce((sum, each) => sum + each, 0);

/** The counters of an application: `in:NODE`, `out:NODE`, `dropped:NODE`, `read:TOPIC`, `written:TOPIC`, `changed:STORE`. */
export function counters(metrics) {
  const counts = {};
  const set = (name, value) => {
    if (typeof value === "number") counts[name] = value;
  };
  for (const [name, each] of Object.entries({ ...metrics.operators, ...metrics.nodes })) {
    set(`in:${name}`, each.in ?? each.taken);
    set(`out:${name}`, each.out);
    set(`dropped:${name}`, total(each.dropped));
  }
  for (const [topic, each] of Object.entries(metrics.sources ?? {})) set(`read:${topic}`, each.read);
  for (const [topic, written] of Object.entries(metrics.sinks ?? {})) set(`written:${topic}`, written);
  for (const [store, each] of Object.entries(metrics.stores ?? {})) set(`changed:${store}`, each.changes);
  return counts;
}

/** The rates of an application whose answer is read again and again. */
export function useRates(application) {
  const rates = useRef(null);
  rates.current ??= new Rates();
  if (application?.metrics && application.reported) {
    rates.current.add(application.reported, application.run, counters(application.metrics));
  }
  return rates.current;
}

/** Series by name that the page collects while it is open. They stay while other pages are shown. */
export class Series {
  constructor() {
    this.rows = new Map();
  }

  /** Adds a value at a time, unless the time is not later than the last. */
  add(name, time, value) {
    const row = this.rows.get(name) ?? { times: [], values: [] };
    this.rows.set(name, row);
    if (row.times.length && time <= row.times.at(-1)) return;
    row.times.push(time);
    row.values.push(value);
    if (row.times.length > MOST_POINTS) {
      row.times.shift();
      row.values.shift();
    }
  }

  values(name) {
    return this.rows.get(name)?.values ?? [];
  }
}
