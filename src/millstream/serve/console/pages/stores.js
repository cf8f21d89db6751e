// Stores: a list, and of each its rows, its changes as they come, and its schema.

import { api, path } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { bytes, count, counted, duration } from "../lib/format.js";
import { go, href } from "../lib/router.js";
import { sqlRow } from "../lib/topology.js";
import { Empty, Head, Loading, Panel, Problem, Table, Tabs, Tag, html, useEffect, useState } from "../lib/ui.js";
import { KeyWatch } from "../parts/key-watch.js";
import { Schema } from "../parts/schema.js";
import { StoreChanges } from "../parts/store-changes.js";
import { StoreRows } from "../parts/store-rows.js";

const EVERY_MS = 3_000;
const LIST_MS = 5_000;
const TITLES = { rows: "Rows", changes: "Changes", schema: "Schema" };

export default function Page({ parts, query }) {
  const [application, store] = parts;
  if (application && store) return html`<${Store} application=${application} name=${store} query=${query} />`;
  return html`<${Stores} only=${application} query=${query} />`;
}

/** The stores of all applications: { stores, error }. */
function useStores() {
  const applications = useData("applications", { every: LIST_MS });
  const [answer, setAnswer] = useState({ stores: null, error: null });
  useEffect(() => {
    if (!applications.data) return undefined;
    const abort = new AbortController();
    const ask = async ({ id }) => {
      const { stores } = await api.get(`applications/${path(id)}/stores`, null, { signal: abort.signal });
      return stores.map((store) => ({ ...store, application: id }));
    };
    Promise.allSettled(applications.data.applications.map(ask)).then((answers) => {
      if (abort.signal.aborted) return;
      const failed = answers.find((each) => each.status === "rejected");
      const stores = answers.flatMap((each) => each.value ?? []);
      setAnswer({ stores, error: failed && !stores.length ? failed.reason : null });
    });
    return () => abort.abort();
  }, [applications.data]);
  return { ...answer, error: applications.error ?? answer.error };
}

/** The type of keys or values: the columns of a row of SQL. */
const described = (part) => sqlRow(part?.serde)?.columns ?? part?.type ?? part?.serde ?? "";

function Stores({ only, query }) {
  const { stores, error } = useStores();
  const change = (search) => go(href(["stores", ...(only ? [only] : [])], { search }), { replace: true });
  const text = (query.search ?? "").toLowerCase();
  const shown = (stores ?? []).filter(
    (store) =>
      (!only || store.application === only) && `${store.application}/${store.name}`.toLowerCase().includes(text),
  );
  const columns = [
    {
      title: "Store",
      kind: "title",
      cell: (store) => html`<a class="name" href=${href(["stores", store.application, store.name])}>${store.name}</a>`,
    },
    {
      title: "Application",
      cell: (store) => html`<a href=${href(["applications", store.application])}>${store.application}</a>`,
    },
    { title: "Kind", cell: (store) => html`<${Tag}>${store.kind}<//>` },
    { title: "Key", kind: "optional code", cell: (store) => described(store.key) },
    {
      title: "Value",
      kind: "wide optional code",
      cell: (store) => store.value?.name ?? described(store.value),
    },
    { title: "Rows", kind: "number", cell: (store) => count(store.rows) },
    { title: "Size", kind: "number optional", cell: (store) => bytes(store.bytes) },
  ];
  return html`<${Head} title="Stores" aside=${only && html`of <a href=${href(["applications", only])}>${only}</a> <a href="#/stores">all</a>`}
      actions=${html`<input data-search placeholder="search" aria-label="Search" value=${query.search ?? ""} onInput=${(event) => change(event.target.value)} />`} />
    ${error && html`<${Problem} error=${error.isMissing ? { message: "this server does not answer queries of stores" } : error} />`}
    ${!stores && !error && html`<${Panel}><${Loading} /><//>`}
    ${
      stores &&
      html`<${Panel}>${
        shown.length > 0
          ? html`<${Table} label="Stores" columns=${columns} rows=${shown} keyOf=${(store) => `${store.application}/${store.name}`}
          onOpen=${(store) => go(href(["stores", store.application, store.name]))} />`
          : html`<${Empty}>${stores.length ? "No store matches." : "No application has a store with a name."}<//>`
      }<//>`
    }`;
}

function Store({ application, name, query }) {
  const route = `applications/${path(application, "stores", name)}`;
  const answer = useData(route, { every: EVERY_MS });
  const store = answer.data;
  const tab = TITLES[query.tab] ? query.tab : "rows";
  if (answer.error && !store)
    return html`<${Head} title=${name} /><${Problem} error=${answer.error} retry=${answer.reload} />`;
  if (!store) return html`<${Head} title=${name} /><${Panel}><${Loading} /><//>`;
  const tabs = Object.entries(TITLES).map(([id, title]) => ({
    id,
    title,
    href: href(["stores", application, name], id === "rows" ? {} : { tab: id }),
  }));
  return html`<${Head} title=${name}
      aside=${html`<${Tag}>${store.kind}<//><span>of <a href=${href(["applications", application])}>${application}</a></span>
        <span>${counted(store.rows, "row")}</span>${store.bytes !== null && html`<span>${bytes(store.bytes)}</span>`}
        ${store.window_size_ms > 0 && html`<span>windows of ${duration(store.window_size_ms)}</span>`}
        ${store.retention_ms > 0 && html`<span>kept for ${duration(store.retention_ms)}</span>`}`}
      actions=${html`<a href="#/stores">All stores</a>`} />
    ${answer.error && html`<${Problem} error=${answer.error} />`}
    <${Tabs} tabs=${tabs} current=${tab} />
    ${
      query.watch !== undefined &&
      html`<${KeyWatch} key=${query.watch} route=${`${route}/rows`} application=${application} store=${store} text=${query.watch}
      onClose=${() => go(href(["stores", application, name], { ...query, watch: null }), { replace: true })} />`
    }
    ${tab === "rows" && html`<${StoreRows} route=${`${route}/rows`} application=${application} store=${store} query=${query} />`}
    ${tab === "changes" && html`<${StoreChanges} route=${`${route}/rows`} application=${application} store=${store} query=${query} />`}
    ${tab === "schema" && html`<div class="columns"><${Schema} title="Key" schema=${store.key} /><${Schema} title="Value" schema=${store.value} /></div>`}`;
}
