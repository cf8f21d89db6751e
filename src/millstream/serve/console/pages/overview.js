// All applications at a glance, the alerts, and the topics.

import { Sparkline } from "../lib/charts.js";
import { api, path } from "../lib/api.js";
import { useChannel, useData } from "../lib/data.js";
import { Rates, Series } from "../lib/figures.js";
import { bytes, compact, count, duration, rate } from "../lib/format.js";
import { go, href } from "../lib/router.js";
import {
  Age,
  Empty,
  Head,
  Loading,
  Panel,
  Problem,
  State,
  Table,
  Tag,
  html,
  useEffect,
  useRef,
  useState,
} from "../lib/ui.js";

const EVERY_MS = 2_000;
const MOST_TOPICS = 12;
const HISTORY_MS = 600_000;
const HISTORY_EVERY_MS = 10_000;
const trends = new Series(); // records per second of each application, while the console is open
const histories = new Map(); // what the server has kept of the last minutes: application -> { values, latency }

const last = (values) => (values ?? []).findLast((value) => value !== null) ?? null;

/** Reads the last minutes of each application. Without a history, the small charts begin with the page. */
async function readHistories(names) {
  for (const name of names) {
    try {
      const { series } = await api.get(`applications/${path(name)}/history`, { since: Date.now() - HISTORY_MS });
      histories.set(name, { values: series.rate_in ?? [], latency: last((series.latency_ms ?? []).slice(-5)) });
    } catch (error) {
      histories.delete(name);
      if (error.isMissing) return;
    }
  }
}

const trend = ({ id }) => {
  const kept = histories.get(id)?.values ?? [];
  return kept.length > 5 ? kept : trends.values(id);
};
const latency = (each) => each.latency_ms ?? (each.live ? histories.get(each.id)?.latency : null);

const link = (application) => href(["applications", application.id]);
const known = (application, value) => (application.reported ? value : "–");

const COLUMNS = [
  { title: "State", kind: "narrow", cell: (each) => html`<${State} state=${each.state} late=${each.late} />` },
  { title: "Application", cell: (each) => html`<a class="name" href=${link(each)}>${each.id}</a>` },
  { title: "Records in", kind: "chart", cell: (each) => html`<${Sparkline} values=${trend(each)} />` },
  { title: "In", kind: "number", cell: (each) => known(each, rate(each.rate_in)) },
  { title: "Out", kind: "number optional", cell: (each) => known(each, rate(each.rate_out)) },
  { title: "Lag", kind: "number", cell: (each) => known(each, compact(each.lag)) },
  { title: "Latency", kind: "number", cell: (each) => duration(latency(each)) },
  { title: "State size", kind: "number optional", cell: (each) => known(each, bytes(each.state_bytes)) },
  { title: "Dropped", kind: "number optional", cell: (each) => known(each, count(each.dropped)) },
  {
    title: "Restarts",
    kind: "number optional",
    cell: (each) => (each.restarts ? html`<${Tag} tone="warn">${count(each.restarts)}<//>` : known(each, "0")),
  },
  { title: "Since", kind: "number optional", cell: (each) => (each.since ? html`<${Age} ms=${each.since} />` : "–") },
];

const ORDER = ["ERROR", "KILLED", "PENDING_ERROR"];

/** Applications that failed come first. */
const sorted = (applications) =>
  [...applications].sort(
    (one, other) => ORDER.includes(other.state) - ORDER.includes(one.state) || (one.id < other.id ? -1 : 1),
  );

function Tile({ title, value, tone = "", children }) {
  return html`<div class=${`tile ${tone}`}><h3>${title}</h3><strong>${value}</strong><small>${children}</small></div>`;
}

function Tiles({ applications, firing }) {
  const live = applications.filter((each) => each.live);
  const sum = (name) => live.reduce((total, each) => total + (each[name] ?? 0), 0);
  const failed = applications.filter((each) => ORDER.includes(each.state)).length;
  return html`<div class="tiles">
    <${Tile} title="Applications" value=${`${live.length} running`} tone=${failed ? "bad" : ""}>
      ${failed ? `${failed} failed` : `of ${applications.length}`}<//>
    <${Tile} title="Records in" value=${rate(sum("rate_in"))}>${rate(sum("rate_out"))} out<//>
    <${Tile} title="Lag" value=${compact(sum("lag"))}>records<//>
    <${Tile} title="Alerts" value=${firing === null ? "–" : count(firing)} tone=${firing ? "bad" : ""}>firing<//>
  </div>`;
}

function Problems({ applications }) {
  const rows = applications.filter((each) => each.error || each.problem || each.state === "KILLED");
  return rows.map(
    (each) => html`<div class=${each.error || each.state === "KILLED" ? "problem" : "note"} key=${each.id}>
      <strong><a href=${link(each)}>${each.id}</a> ${each.error ? "has failed" : each.state === "KILLED" ? "was killed" : "makes no progress"}</strong>
      <pre>${each.error?.message ?? each.problem ?? "Its process ended without a last report. Its state is that of its last commit."}</pre>
    </div>`,
  );
}

const ALERT_COLUMNS = [
  { title: "State", kind: "narrow", cell: (each) => html`<${State} state=${each.state} />` },
  { title: "Rule", cell: (each) => each.rule },
  {
    title: "Application",
    cell: (each) => html`<a href=${href(["applications", each.application])}>${each.application}</a>`,
  },
  { title: "Message", kind: "wide", cell: (each) => html`<span title=${each.message}>${each.message}</span>` },
  { title: "Since", kind: "number", cell: (each) => html`<${Age} ms=${each.ended ?? each.since} />` },
];

function Alerts({ alerts }) {
  if (alerts.error?.isMissing) return null;
  const rank = { firing: 0, pending: 1, resolved: 2 };
  const rows = [...(alerts.data?.alerts ?? [])].sort(
    (one, other) => rank[one.state] - rank[other.state] || other.since - one.since,
  );
  return html`<${Panel} title="Alerts" aside=${alerts.data && `${alerts.data.rules.length} rules`}>
    ${alerts.error && html`<${Problem} error=${alerts.error} />`}
    ${
      rows.length
        ? html`<${Table} label="Alerts" columns=${ALERT_COLUMNS} rows=${rows.slice(0, 20)} keyOf=${(each) => `${each.rule}/${each.application}/${each.since}`} />`
        : html`<${Empty}>No alert is firing or pending.<//>`
    }
  <//>`;
}

/** The topics with the records that arrive: by the growth of their offsets. */
function Topics() {
  const topics = useData("topics", { every: 3_000 });
  const rates = useRef(new Rates());
  const [isAll, setAll] = useState(false);
  const rows = (topics.data?.topics ?? []).filter((topic) => isAll || !topic.internal);
  useEffect(() => {
    if (!topics.data) return;
    // Records of a compacted topic can be removed: then its number falls, and the rate is that of a new start.
    rates.current.add(
      Date.now(),
      null,
      Object.fromEntries(topics.data.topics.map((topic) => [topic.name, topic.records])),
    );
  }, [topics.data]);
  const flow = new Map(rows.map((topic) => [topic.name, rates.current.of(topic.name)]));
  const shown = [...rows].sort(
    (one, other) => (flow.get(other.name) ?? 0) - (flow.get(one.name) ?? 0) || (one.name < other.name ? -1 : 1),
  );
  const columns = [
    {
      title: "Topic",
      kind: "wide",
      cell: (topic) =>
        html`<a href=${href(["topics", topic.name])}>${topic.name}</a>${topic.internal && html` <${Tag}>internal<//>`}`,
    },
    { title: "Partitions", kind: "number", cell: (topic) => count(topic.partitions) },
    { title: "Records", kind: "number", cell: (topic) => compact(topic.records) },
    { title: "Rate", kind: "number", cell: (topic) => rate(flow.get(topic.name)) },
  ];
  return html`<${Panel} title="Topics" aside=${html`<label class="check"><input type="checkbox" checked=${isAll}
      onChange=${(event) => setAll(event.target.checked)} /> internal</label><a href="#/topics">all topics</a>`}>
    ${topics.error && html`<${Problem} error=${topics.error} />`}
    ${topics.isLoading && html`<${Loading} />`}
    ${topics.data && !shown.length && html`<${Empty}>There are no topics.<//>`}
    ${
      shown.length > 0 &&
      html`<${Table} label="Topics" columns=${columns} rows=${shown.slice(0, MOST_TOPICS)} keyOf=${(topic) => topic.name}
      onOpen=${(topic) => go(href(["topics", topic.name]))} />`
    }
  <//>`;
}

const merged = (data, event) =>
  Array.isArray(event.applications) ? { ...data, applications: event.applications } : null;

export default function Overview() {
  const answer = useData("applications", { every: EVERY_MS, channel: "applications", merge: merged });
  const alerts = useData("alerts", { every: 10_000 });
  useChannel("alerts", alerts.reload);
  const applications = sorted(answer.data?.applications ?? []);
  const names = applications.map((each) => each.id).join("\n");
  const [, refresh] = useState(0);
  useEffect(() => {
    if (!names) return undefined;
    const read = () => readHistories(names.split("\n")).then(() => refresh((number) => number + 1));
    read();
    const timer = setInterval(() => document.hidden || read(), HISTORY_EVERY_MS);
    return () => clearInterval(timer);
  }, [names]);
  for (const each of applications) if (each.reported) trends.add(each.id, each.reported, each.rate_in);
  const firing = alerts.data ? alerts.data.alerts.filter((each) => each.state === "firing").length : null;
  return html`<${Head} title="Overview" />
    ${answer.error && html`<${Problem} error=${answer.error} retry=${answer.reload} />`}
    ${answer.isLoading && html`<${Loading} />`}
    ${
      answer.data &&
      html`<${Tiles} applications=${applications} firing=${firing} />
      <${Problems} applications=${applications} />
      <${Panel} title="Applications">
        ${
          applications.length
            ? html`<${Table} label="Applications" columns=${COLUMNS} rows=${applications} keyOf=${(each) => each.id}
              onOpen=${(each) => go(link(each))} />`
            : html`<${Empty}>No application has run on this data yet. Start one: <code>app.run()</code><//>`
        }
      <//>
      <div class="columns uneven"><${Topics} /><${Alerts} alerts=${alerts} /></div>`
    }`;
}
