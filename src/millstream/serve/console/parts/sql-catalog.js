// The catalogue: streams, tables, types, and the queries with what can be done with them.

import { api } from "../lib/api.js";
import { href } from "../lib/router.js";
import { Action, Empty, Panel, Problem, State, html, useMay, useState } from "../lib/ui.js";

const quoted = (name) => (/^[A-Z_][A-Z0-9_]*$/.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);

/** A statement about queries. Their ids are names of the grammar. */
const control = async (action, query, reload) => {
  await api.post("/ksql", { ksql: `${action} ${query.id};` });
  reload();
};

function Source({ source, insert, write }) {
  const [isOpen, setOpen] = useState(false);
  const store =
    source.application && source.kind === "table" ? href(["stores", source.application, source.name]) : null;
  return html`<li>
    <div class="entry"><button class="plain fold" aria-expanded=${isOpen} aria-label=${`${isOpen ? "Hide" : "Show"} the columns of ${source.name}`} onClick=${() => setOpen(!isOpen)}>${isOpen ? "▾" : "▸"}</button>
      <button class="plain name" title="Insert the name" onClick=${() => insert(quoted(source.name))}>${source.name}</button>
      <small>${source.window ? `${source.window.toLowerCase()} ` : ""}${source.value_format}</small></div>
    ${
      isOpen &&
      html`<div class="inside">
      <ul>${source.columns.map(
        (
          column,
        ) => html`<li class="column"><button class="plain" title="Insert the name" onClick=${() => insert(quoted(column.name))}>${column.name}</button>
        <code>${column.type}</code>${column.role && html`<small>${column.role.toLowerCase()}</small>`}</li>`,
      )}</ul>
      <p class="links">
        <button class="plain" onClick=${() => write(`SELECT * FROM ${quoted(source.name)} EMIT CHANGES;`)}>follow</button>
        ${source.application && source.kind === "table" && html`<button class="plain" onClick=${() => write(`SELECT * FROM ${quoted(source.name)};`)}>rows</button>`}
        <button class="plain" onClick=${() => write(`DESCRIBE ${quoted(source.name)};`)}>describe</button>
        <a href=${href(["topics", source.topic])}>topic</a>
        ${store && html`<a href=${store}>store</a>`}
      </p></div>`
    }
  </li>`;
}

function Query({ query, explain, reload }) {
  const isOperator = useMay("operator");
  const isAdmin = useMay("admin");
  const [isOpen, setOpen] = useState(false);
  const isPaused = query.state === "PAUSED";
  return html`<li>
    <div class="entry"><button class="plain fold" aria-expanded=${isOpen} aria-label=${`${isOpen ? "Hide" : "Show"} query ${query.id}`} onClick=${() => setOpen(!isOpen)}>${isOpen ? "▾" : "▸"}</button>
      <span class="name">${query.id}</span><${State} state=${query.state} /></div>
    ${query.problem && html`<p class="problem">${query.problem}</p>`}
    ${
      isOpen &&
      html`<div class="inside"><pre class="json">${query.statement}</pre>
      <p class="links">
        <${Action} class="plain" disabled=${!isOperator} title=${isOperator ? null : "this needs the role operator"} run=${() => control(isPaused ? "RESUME" : "PAUSE", query, reload)}>${isPaused ? "resume" : "pause"}<//>
        <${Action} class="plain danger" disabled=${!isAdmin} title=${isAdmin ? null : "this needs the role admin"} run=${() => control("TERMINATE", query, reload)}
          confirm=${{ title: "Terminate the query", text: `${query.id} ends for good, and its state is deleted. What it has written stays.`, yes: "Terminate" }}>terminate<//>
        <button class="plain" onClick=${() => explain(query.id)}>explain</button>
        ${query.application && html`<a href=${href(["applications", query.application])}>application</a>`}
      </p></div>`
    }
  </li>`;
}

function Part({ title, items, none, children }) {
  return html`<section><h3>${title} <small>${items.length}</small></h3>
    ${items.length ? html`<ul>${items.map(children)}</ul>` : html`<p class="muted none">${none}</p>`}</section>`;
}

/**
 * The catalogue.
 *
 * @param answer that of its route.
 * @param insert inserts a name into the editor.
 * @param write replaces the text of the editor.
 * @param explain shows the topology of a query.
 */
export function Catalog({ answer, insert, write, explain }) {
  const { data, error, reload } = answer;
  if (error && !data) return html`<${Panel} title="Catalogue"><${Problem} error=${error} retry=${reload} /><//>`;
  if (!data) return html`<${Panel} title="Catalogue"><${Empty}>…<//><//>`;
  const source = (each) => html`<${Source} key=${each.name} source=${each} insert=${insert} write=${write} />`;
  return html`<${Panel} title="Catalogue" class="catalog">
    <${Part} title="Streams" items=${data.streams} none="none">${source}<//>
    <${Part} title="Tables" items=${data.tables} none="none">${source}<//>
    <${Part} title="Queries" items=${data.queries} none="none">${(each) => html`<${Query} key=${each.id} query=${each} explain=${explain} reload=${reload} />`}<//>
    ${data.types.length > 0 && html`<${Part} title="Types" items=${data.types}>${(each) => html`<li key=${each.name} class="column"><button class="plain" onClick=${() => insert(quoted(each.name))}>${each.name}</button> <code>${each.type}</code></li>`}<//>`}
  <//>`;
}
