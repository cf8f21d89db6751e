// The records of a topic: the newest first, or from an offset or a time on; or as they come.

import { api, path } from "../lib/api.js";
import { useData, useStreamState } from "../lib/data.js";
import { parseExact } from "../lib/exact.js";
import { useFollowing } from "../lib/following.js";
import { count, counted, dateTime, fieldOf, msOfField } from "../lib/format.js";
import { usePages } from "../lib/pages.js";
import { go, href } from "../lib/router.js";
import { Empty, Facts, Json, Loading, Panel, Problem, Table, Tag, Value, html, useState } from "../lib/ui.js";
import { Produce } from "./produce.js";

const PAGE = 50;
const MOST_ROWS = 2_000;
const FROM = {
  newest: "newest first",
  start: "oldest first",
  offset: "from offset",
  time: "from time",
  follow: "as they come",
};

const identity = (record) => `${record.partition}/${record.offset}`;
const keyOf = (record) => record.key ?? record.key_base64;
const valueOf = (record) => record.value ?? record.value_base64;

function parametersOf(query, from) {
  const parameters = { limit: PAGE, partition: query.partition };
  if (from === "newest" || from === "follow") parameters.newest = true;
  if (from === "offset") parameters.offset = query.offset || 0;
  if (from === "time") parameters.from_time = query.time || 0;
  return parameters;
}

/** Where the list begins. All of it is in the address. */
function Controls({ topic, query, from, text, setText, children }) {
  const change = (changes) => go(href(["topics", topic.name], { ...query, ...changes }), { replace: true });
  const begin = (event) => {
    const next = event.target.value;
    const start = topic.offsets[Number(query.partition ?? 0)]?.start ?? 0;
    change({
      from: next === "newest" ? "" : next,
      offset: next === "offset" ? start : "",
      time: next === "time" ? Date.now() - 3_600_000 : "",
    });
  };
  return html`<div class="form controls">
    <label>Show<select aria-label="Show" value=${from} onChange=${begin}>${Object.entries(FROM).map(([id, title]) => html`<option value=${id}>${title}</option>`)}</select></label>
    ${from === "offset" && html`<label>Offset<input type="number" min="0" value=${query.offset} onChange=${(event) => change({ offset: event.target.value })} /></label>`}
    ${from === "time" && html`<label>Time<input type="datetime-local" step="1" value=${fieldOf(query.time)} onChange=${(event) => change({ time: msOfField(event.target.value) })} /></label>`}
    ${
      topic.partitions > 1 &&
      html`<label>Partition<select aria-label="Partition" value=${query.partition ?? ""} onChange=${(event) => change({ partition: event.target.value })}>
      <option value="">all</option>${topic.offsets.map((each) => html`<option value=${each.partition}>${each.partition}</option>`)}</select></label>`
    }
    <label class="search">Find in what is shown<input data-search value=${text} onInput=${(event) => setText(event.target.value)} /></label>
    <div class="beside">${children}</div>
  </div>`;
}

function contains(record, text) {
  if (!text) return true;
  return JSON.stringify([keyOf(record), valueOf(record), record.headers])
    .toLowerCase()
    .includes(text.toLowerCase());
}

/** A time whose date a narrow page leaves out. */
function Moment({ ms }) {
  const [date, clock] = dateTime(ms, { millis: true }).split(" ");
  return clock ? html`<span title=${ms}><span class="date">${date} </span>${clock}</span>` : date;
}

/** A text that is JSON is shown as that. */
function readable(value) {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return value;
  try {
    return parseExact(value);
  } catch {
    return value;
  }
}

const COLUMNS = [
  { title: "Time", kind: "narrow", cell: (record) => html`<${Moment} ms=${record.timestamp} />` },
  { title: "Partition", kind: "number optional", cell: (record) => record.partition },
  { title: "Offset", kind: "number", cell: (record) => count(record.offset) },
  { title: "Key", kind: "code", cell: (record) => html`<${Value} value=${keyOf(record)} most=${80} />` },
  { title: "Value", kind: "wide", cell: (record) => html`<${Value} value=${valueOf(record)} most=${300} />` },
  {
    title: "",
    kind: "narrow optional",
    cell: (record) => record.headers?.length > 0 && html`<${Tag} title="headers">${record.headers.length} h<//>`,
  },
];

const headerText = (value) => (value !== null && typeof value === "object" ? `base64: ${value.base64}` : value);

/** A record with all that is known of it. */
function Record({ topic, record }) {
  const part = (
    name,
  ) => html`<div><h3>${name === "key" ? "Key" : "Value"}${record[`${name}_base64`] !== undefined && record[name] === undefined && html` <small>base64</small>`}
      ${record[`${name}_schema_id`] !== undefined && html` <${Tag}>schema ${record[`${name}_schema_id`]}<//>`}</h3>
    ${record[`${name}_error`] && html`<p class="hint">${record[`${name}_error`]}</p>`}
    <${Json} value=${readable(record[name] ?? record[`${name}_base64`])} /></div>`;
  return html`<div class="record">
    <${Facts} facts=${[
      ["time", dateTime(record.timestamp, { millis: true })],
      ["timestamp", String(record.timestamp)],
      ["partition", record.partition],
      ["offset", count(record.offset)],
    ]} />
    <div class="key-and-value">${part("key")}${part("value")}</div>
    ${record.headers_error && html`<p class="hint">headers: ${record.headers_error}</p>`}
    ${
      record.headers?.length > 0 &&
      html`<div><h3>Headers</h3><table class="headers" aria-label="Headers"><tbody>
      ${record.headers.map(([name, value]) => html`<tr><td class="code">${name}</td><td class="code wide"><${Value} value=${headerText(value)} most=${2000} /></td></tr>`)}</tbody></table></div>`
    }
    <div class="actions"><${Produce} topic=${topic} record=${record} /></div>
  </div>`;
}

function Records({ topic, records, label = "Records" }) {
  const [open, setOpen] = useState(null);
  return html`<${Table} label=${label} columns=${topic.partitions > 1 ? COLUMNS : COLUMNS.filter((column) => column.title !== "Partition")} rows=${records} keyOf=${identity}
    isOpen=${(record) => identity(record) === open} onOpen=${(record) => setOpen(identity(record) === open ? null : identity(record))}
    details=${(record) => html`<${Record} topic=${topic} record=${record} />`} />`;
}

/** Records that are there, page by page. */
function Pages({ topic, query, from, text }) {
  const parameters = parametersOf(query, from);
  const route = `topics/${path(topic.name)}/records`;
  const answer = useData(route, { parameters });
  const pages = usePages(route, parameters, answer.data, "records");
  const all = pages.items;
  if (answer.error && !answer.data) return html`<${Problem} error=${answer.error} retry=${answer.reload} />`;
  if (!answer.data) return html`<${Panel}><${Loading} /><//>`;
  function again() {
    pages.restart();
    answer.reload();
  }
  const shown = all.filter((record) => contains(record, text));
  return html`<${Panel}>
    ${shown.length > 0 && html`<${Records} topic=${topic} records=${shown} />`}
    ${!shown.length && html`<${Empty}>${all.length ? `None of the ${count(all.length)} records that were read contains “${text}”.` : "There are no records."}<//>`}
    ${pages.error && html`<${Problem} error=${pages.error} />`}
    <p class="below">
      ${pages.cursor !== null && all.length < MOST_ROWS && html`<button disabled=${pages.isBusy} onClick=${pages.load}>${from === "newest" ? "Older records" : "More records"}</button>`}
      <span>${counted(all.length, "record")}${text && `, ${count(shown.length)} of them match`}${pages.cursor === null ? ": that is all" : ""}</span>
      <button class="plain" onClick=${again}>Read again</button>
    </p>
  <//>`;
}

/** Records as they come. */
function Live({ topic, query, text }) {
  const [isHeld, setHeld] = useState(false);
  const stream = useStreamState();
  const route = `topics/${path(topic.name)}/records`;
  const hasPartition = query.partition !== undefined && query.partition !== "";
  const {
    rows,
    count: number,
    missed,
    isReady,
  } = useFollowing(`topic:${topic.name}${hasPartition ? `/${query.partition}` : ""}`, {
    poll: async () => (await api.get(route, parametersOf(query, "newest"))).records,
    identity,
    isHeld,
  });
  const shown = rows.filter((record) => contains(record, text));
  return html`<${Panel}>
    <p class="above">
      <${Tag} tone=${isHeld ? "warn" : stream === "live" ? "good" : "busy"}>${isHeld ? "held" : stream === "live" ? "live" : "asks every 2 s"}<//>
      <span>${counted(number, "new record")}${missed > 0 ? `, ${count(missed)} more were left out: the topic is faster than this page` : ""}</span>
      <button class="plain" aria-pressed=${isHeld} onClick=${() => setHeld(!isHeld)}>${isHeld ? "Continue" : "Hold"}</button>
    </p>
    ${shown.length > 0 && html`<${Records} topic=${topic} records=${shown} label="Live records" />`}
    ${!shown.length && html`<${Empty}>${isReady ? "No record has come yet." : "…"}<//>`}
  <//>`;
}

export function TopicRecords({ topic, query }) {
  const from = FROM[query.from] ? query.from : "newest";
  const [text, setText] = useState("");
  const follow = href(["topics", topic.name], { ...query, from: from === "follow" ? "" : "follow" });
  return html`<${Panel}><${Controls} topic=${topic} query=${query} from=${from} text=${text} setText=${setText}>
      <button aria-pressed=${from === "follow"} class=${from === "follow" ? "primary" : ""} onClick=${() => go(follow, { replace: true })}>
        ${from === "follow" ? "Stop following" : "Follow"}</button>
    <//><//>
    ${
      from === "follow"
        ? html`<${Live} key=${query.partition ?? ""} topic=${topic} query=${query} text=${text} />`
        : html`<${Pages} topic=${topic} query=${query} from=${from} text=${text} />`
    }`;
}
