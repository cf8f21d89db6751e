// Topics: a list, and of each its records, partitions, schema and consumers. Beside them, the consumer groups.

import { path } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { Rates } from "../lib/figures.js";
import { count, counted, rate } from "../lib/format.js";
import { go, href } from "../lib/router.js";
import { Empty, Head, Loading, Panel, Problem, Table, Tabs, Tag, html, useRef } from "../lib/ui.js";
import { ConsumerGroups, ConsumersOf } from "../parts/consumer-groups.js";
import { Produce } from "../parts/produce.js";
import { SchemaOf } from "../parts/schema.js";
import { TopicRecords } from "../parts/topic-records.js";

const EVERY_MS = 3_000;
const LISTS = { topics: "Topics", groups: "Consumer groups" };
const TITLES = {
  records: "Records",
  partitions: "Partitions",
  schema: "Schema and configuration",
  consumers: "Consumers",
};

export default function Page({ parts, query }) {
  if (parts.length) return html`<${Topic} name=${parts[0]} query=${query} />`;
  const list = LISTS[query.list] ? query.list : "topics";
  const tabs = Object.entries(LISTS).map(([id, title]) => ({
    id,
    title,
    href: href(["topics"], id === "topics" ? {} : { list: id }),
  }));
  return html`<${Head} title=${LISTS[list]} actions=${html`<${Search} query=${query} isTopics=${list === "topics"} />`} />
    <${Tabs} tabs=${tabs} current=${list} />
    ${list === "groups" ? html`<${ConsumerGroups} text=${query.search ?? ""} open=${query.group} />` : html`<${Topics} query=${query} />`}`;
}

/** What is searched is in the address. */
function Search({ query, isTopics }) {
  const change = (changes) => go(href(["topics"], { ...query, ...changes }), { replace: true });
  return html`${
    isTopics &&
    html`<label class="check"><input type="checkbox" checked=${query.internal === "1"}
      onChange=${(event) => change({ internal: event.target.checked ? "1" : "" })} /> internal topics</label>`
  }
    <input data-search placeholder="search" aria-label="Search" value=${query.search ?? ""} onInput=${(event) => change({ search: event.target.value })} />`;
}

/** Records per second by topic, from the ends of the partitions. */
function useTopicRates(topics) {
  const rates = useRef(null);
  rates.current ??= new Rates();
  const last = useRef(null);
  if (topics && last.current !== topics) {
    last.current = topics;
    rates.current.add(Date.now(), "", Object.fromEntries(topics.map((topic) => [topic.name, topic.records])));
  }
  return rates.current;
}

function Topics({ query }) {
  const answer = useData("topics", { every: EVERY_MS });
  const topics = answer.data?.topics;
  const rates = useTopicRates(topics);
  if (answer.error && !topics) return html`<${Problem} error=${answer.error} retry=${answer.reload} />`;
  if (!topics) return html`<${Panel}><${Loading} /><//>`;
  const text = (query.search ?? "").toLowerCase();
  const matches = topics.filter((topic) => topic.name.toLowerCase().includes(text));
  const shown = matches.filter((topic) => query.internal === "1" || !topic.internal);
  const hidden = matches.length - shown.length;
  const columns = [
    {
      title: "Topic",
      kind: "wide",
      cell: (topic) => html`<a class="name" href=${href(["topics", topic.name])}>${topic.name}</a>
        ${topic.internal && html` <${Tag}>internal<//>`}`,
    },
    { title: "Partitions", kind: "number", cell: (topic) => count(topic.partitions) },
    { title: "Records", kind: "number", cell: (topic) => count(topic.records) },
    { title: "In", kind: "number", cell: (topic) => rate(rates.of(topic.name)) },
    { title: "Cleanup", kind: "optional", cell: (topic) => topic.config?.["cleanup.policy"] ?? "" },
  ];
  return html`<${Panel}>
    ${
      shown.length > 0 &&
      html`<${Table} label="Topics" columns=${columns} rows=${shown} keyOf=${(topic) => topic.name}
      onOpen=${(topic) => go(href(["topics", topic.name]))} />`
    }
    ${!shown.length && html`<${Empty}>${topics.length ? "No topic matches." : "There are no topics yet."}<//>`}
    ${hidden > 0 && html`<p class="below"><a href=${href(["topics"], { ...query, internal: "1" })}>${counted(hidden, "internal topic")} ${hidden === 1 ? "is" : "are"} hidden</a></p>`}
  <//>`;
}

function Topic({ name, query }) {
  const answer = useData(`topics/${path(name)}`, { every: EVERY_MS });
  const topic = answer.data;
  const tab = TITLES[query.tab] ? query.tab : "records";
  if (answer.error && !topic)
    return html`<${Head} title=${name} /><${Problem} error=${answer.error} retry=${answer.reload} />`;
  if (!topic) return html`<${Head} title=${name} /><${Panel}><${Loading} /><//>`;
  const tabs = Object.entries(TITLES).map(([id, title]) => ({
    id,
    title,
    href: href(["topics", name], id === "records" ? {} : { tab: id }),
  }));
  return html`<${Head} title=${name}
      aside=${html`<span>${counted(topic.records, "record")}</span><span>${counted(topic.partitions, "partition")}</span>
        ${topic.internal && html`<${Tag}>internal<//>`}`}
      actions=${html`<a href="#/topics">All topics</a><${Produce} topic=${topic} onDone=${answer.reload} />`} />
    ${answer.error && html`<${Problem} error=${answer.error} />`}
    <${Tabs} tabs=${tabs} current=${tab} />
    ${tab === "records" && html`<${TopicRecords} topic=${topic} query=${query} />`}
    ${tab === "partitions" && html`<${Partitions} topic=${topic} />`}
    ${tab === "schema" && html`<${SchemaOf} topic=${topic} />`}
    ${tab === "consumers" && html`<${ConsumersOf} topic=${name} />`}`;
}

function Partitions({ topic }) {
  const records = (partition, query) => href(["topics", topic.name], { partition, ...query });
  const columns = [
    { title: "Partition", kind: "narrow", cell: (row) => html`<a href=${records(row.partition)}>${row.partition}</a>` },
    {
      title: "First offset",
      kind: "number",
      cell: (row) => html`<a href=${records(row.partition, { from: "start" })}>${count(row.start)}</a>`,
    },
    { title: "End", kind: "number", cell: (row) => count(row.end) },
    { title: "Offsets", kind: "number", cell: (row) => count(row.end - row.start) },
    { title: "", kind: "optional", cell: (row) => html`<${Share} part=${row.end - row.start} of=${topic.records} />` },
  ];
  return html`<${Panel}><${Table} label="Partitions" columns=${columns} rows=${topic.offsets} keyOf=${(row) => row.partition}
    onOpen=${(row) => go(records(row.partition))} /><//>`;
}

const Share = ({ part, of }) =>
  html`<span class="share" aria-hidden="true"><i style=${{ width: `${of > 0 ? (100 * part) / of : 0}%` }} /></span>`;
