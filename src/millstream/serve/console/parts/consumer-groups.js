// Consumer groups and their lag: all of them, or those that read a topic.

import { api, path } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { count } from "../lib/format.js";
import { go, href } from "../lib/router.js";
import { Empty, Loading, Panel, Problem, Table, Tag, html, useEffect, useState } from "../lib/ui.js";

const EVERY_MS = 4_000;
const MOST_GROUPS = 100;
const AT_ONCE = 4;

/** The offsets of each group: { groups: [{ group, lag, offsets }], hidden, error }. */
function useGroups() {
  const names = useData("groups", { every: EVERY_MS });
  const [groups, setGroups] = useState(null);
  useEffect(() => {
    if (!names.data) return undefined;
    const abort = new AbortController();
    const waiting = names.data.groups.slice(0, MOST_GROUPS);
    const answers = [];
    async function ask() {
      while (waiting.length) {
        const name = waiting.shift();
        try {
          answers.push(await api.get(`groups/${path(name)}`, null, { signal: abort.signal }));
        } catch (error) {
          if (abort.signal.aborted) return;
          if (!error.isMissing) answers.push({ group: name, lag: null, offsets: [], error });
        }
      }
    }
    Promise.all(Array.from({ length: AT_ONCE }, ask)).then(() => {
      if (!abort.signal.aborted) setGroups(answers.sort((one, other) => (one.group < other.group ? -1 : 1)));
    });
    return () => abort.abort();
  }, [names.data]);
  return { groups, hidden: Math.max(0, (names.data?.groups.length ?? 0) - MOST_GROUPS), error: names.error };
}

const Lag = ({ lag }) =>
  lag === null
    ? html`<${Tag} tone="bad">unknown<//>`
    : html`<span class=${lag > 0 ? "lag" : "muted"}>${count(lag)}</span>`;

const OFFSETS = [
  { title: "Topic", cell: (row) => html`<a href=${href(["topics", row.topic])}>${row.topic}</a>` },
  { title: "Partition", kind: "number", cell: (row) => row.partition },
  { title: "Committed offset", kind: "number", cell: (row) => count(row.offset) },
  { title: "End", kind: "number", cell: (row) => count(row.end) },
  { title: "Lag", kind: "number", cell: (row) => html`<${Lag} lag=${row.lag} />` },
];

/** The consumer groups whose names contain a text. */
export function ConsumerGroups({ text, open = null }) {
  const { groups, hidden, error } = useGroups();
  if (error && !groups) return html`<${Problem} error=${error} />`;
  if (!groups) return html`<${Panel}><${Loading} /><//>`;
  const shown = groups.filter((each) => each.group.toLowerCase().includes(text.toLowerCase()));
  const columns = [
    { title: "Group", kind: "wide", cell: (each) => html`<span class="name">${each.group}</span>` },
    { title: "Topics", kind: "number", cell: (each) => count(new Set(each.offsets.map((row) => row.topic)).size) },
    { title: "Partitions", kind: "number", cell: (each) => count(each.offsets.length) },
    { title: "Lag", kind: "number", cell: (each) => html`<${Lag} lag=${each.lag} />` },
  ];
  const choose = (group) => go(href(["topics"], { list: "groups", search: text, group }), { replace: true });
  return html`<${Panel}>
    ${
      shown.length
        ? html`<${Table} label="Consumer groups" columns=${columns} rows=${shown} keyOf=${(each) => each.group} isOpen=${(each) => each.group === open}
          onOpen=${(each) => choose(each.group === open ? null : each.group)}
          details=${(each) => (each.error ? html`<${Problem} error=${each.error} />` : html`<${Table} label=${`Offsets of ${each.group}`} columns=${OFFSETS} rows=${each.offsets} keyOf=${(row) => `${row.topic}/${row.partition}`} />`)} />`
        : html`<${Empty}>${groups.length ? "No group matches." : "No group has committed offsets. An application commits under its id."}<//>`
    }
    ${hidden > 0 && html`<p class="below">The first ${MOST_GROUPS} groups are shown, ${count(hidden)} are not.</p>`}
  <//>`;
}

/** The groups that have committed offsets of a topic. */
export function ConsumersOf({ topic }) {
  const { groups, error } = useGroups();
  if (error && !groups) return html`<${Problem} error=${error} />`;
  if (!groups) return html`<${Panel}><${Loading} /><//>`;
  const rows = groups.flatMap((each) =>
    each.offsets.filter((row) => row.topic === topic).map((row) => ({ ...row, group: each.group })),
  );
  if (!rows.length) return html`<${Panel}><${Empty}>No group has committed offsets of this topic.<//><//>`;
  const columns = [
    {
      title: "Group",
      cell: (row) => html`<a href=${href(["topics"], { list: "groups", group: row.group })}>${row.group}</a>`,
    },
    ...OFFSETS.slice(1),
  ];
  return html`<${Panel}><${Table} label="Consumers" columns=${columns} rows=${rows} keyOf=${(row) => `${row.group}/${row.partition}`} /><//>`;
}
