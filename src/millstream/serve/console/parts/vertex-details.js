// What is known of one part of a topology: an operator, a topic or a store.

import { Chart } from "../lib/charts.js";
import { bytes, count, rate } from "../lib/format.js";
import { href } from "../lib/router.js";
import { graphOf } from "../lib/topology.js";
import { Facts, Panel, Tag, html, useMemo } from "../lib/ui.js";

const KINDS = { operator: "Operator", topic: "Topic", store: "Store" };

const Type = ({ schema }) =>
  schema
    ? html`<code title=${schema.type}>${schema.name ?? schema.type ?? schema.serde}</code>`
    : html`<span class="muted">unknown</span>`;

function Fields({ title, schema }) {
  return html`<div class="schema">
    <h3>${title}</h3>
    <p><${Type} schema=${schema} /> ${schema?.serde && html`<small>${schema.serde}${schema.nullable ? ", nullable" : ""}</small>`}</p>
    ${
      schema?.fields?.length > 0 &&
      html`<ul>${schema.fields.map(
        (field) => html`<li><code>${field.name}</code>
      <small>${field.type}${field.nullable ? ", nullable" : ""}</small>
      ${Object.keys(field.tags ?? {}).map((tag) => html`<${Tag}>${tag}<//>`)}</li>`,
      )}</ul>`
    }
  </div>`;
}

const links = (names, to) =>
  names.length ? names.map((name, at) => html`${at > 0 && ", "}<a href=${to(name)}>${name}</a>`) : null;

function operatorFacts({ source }, application, rates) {
  const figures =
    application.metrics?.nodes?.[source.operator] ?? application.metrics?.operators?.[source.operator] ?? {};
  const store = (name) => href(["stores", application.id, name]);
  const lines = [
    ...Object.entries(source.functions ?? {}).map(([option, at]) => [option, html`<code>${at}</code>`]),
    ...Object.entries(source.expressions ?? {}).map(([option, text]) => [option, html`<code>${text}</code>`]),
  ];
  return {
    facts: [
      ["kind", source.kind],
      ["line", source.at && html`<code>${source.at}</code>`],
      ["in", rate(rates.of(`in:${source.operator}`))],
      ["out", rate(rates.of(`out:${source.operator}`))],
      ["records in", count(figures.in ?? figures.taken)],
      ["records out", figures.out === undefined ? null : count(figures.out)],
      ["stores", links([...source.stores, ...(source.global_stores ?? [])], store)],
      ["topics", links(source.topics, (name) => href(["topics", name]))],
      ["pattern", source.pattern && html`<code>${source.pattern}</code>`],
      ...lines,
    ],
    dropped: Object.entries(figures.dropped ?? {}),
    schemas: source.schema
      ? [
          ["Key", source.schema.key],
          ["Value", source.schema.value],
        ]
      : [],
  };
}

function topicFacts({ name, source }, application, rates) {
  const { operator } = source; // of a repartition
  const figures = application.metrics?.nodes?.[operator] ?? application.metrics?.operators?.[operator] ?? {};
  const read = application.metrics?.sources?.[name];
  const written = application.metrics?.sinks?.[name];
  return {
    facts: [
      ["kind", operator ? "repartition" : null],
      ["line", source.at && html`<code>${source.at}</code>`],
      ["read", read && rate(rates.of(`read:${name}`))],
      ["written", written !== undefined ? rate(rates.of(`written:${name}`)) : null],
      ["lag", read && count(read.lag)],
      ["records read", read && count(read.read)],
      ["records written", written !== undefined ? count(written) : null],
      ["", source.pattern ? null : html`<a href=${href(["topics", name])}>records</a>`],
    ],
    dropped: Object.entries(figures.dropped ?? {}),
    schemas: source.schema
      ? [
          ["Key", source.schema.key],
          ["Value", source.schema.value],
        ]
      : [],
  };
}

function storeFacts({ name, source }, application, rates) {
  const figures = application.metrics?.stores?.[name] ?? {};
  return {
    facts: [
      ["kind", source.kind],
      ["rows", count(figures.rows)],
      ["size", figures["stored-bytes"] === undefined ? null : bytes(figures["stored-bytes"])],
      ["changes", rate(rates.of(`changed:${name}`))],
      ["changelog", source.changelog && html`<a href=${href(["topics", source.changelog])}>${source.changelog}</a>`],
      ["", html`<a href=${href(["stores", application.id, name])}>rows</a>`],
    ],
    dropped: [],
    schemas: [
      ["Key", source.key_schema],
      ["Value", source.value_schema],
    ],
  };
}

const FACTS = { operator: operatorFacts, topic: topicFacts, store: storeFacts };

/** The panel beside the picture. */
export function VertexDetails({ chosen, topology, application, rates, history, onClose }) {
  const vertex = useMemo(() => graphOf(topology).vertices.get(chosen), [topology, chosen]);
  if (!vertex) return null;
  const { facts, dropped, schemas } = FACTS[vertex.kind](vertex, application, rates);
  const node = vertex.source.operator;
  const series = [
    { label: "in", values: history?.nodes?.[node] },
    { label: "out", values: history?.sent?.[node] },
  ].filter((each) => each.values?.some((value) => value !== null));
  return html`<${Panel} class="vertex-details" title=${vertex.name}
      aside=${html`<${Tag}>${KINDS[vertex.kind]}<//><button class="plain" onClick=${onClose} aria-label="Close" title="Close (Esc)">✕</button>`}>
    <div class="body">
      <${Facts} facts=${facts} />
      ${
        dropped.length > 0 &&
        html`<div class="dropped"><h3>Dropped records</h3>
        <ul>${dropped.map(([reason, number]) => html`<li><span>${reason}</span> <strong>${count(number)}</strong></li>`)}</ul></div>`
      }
      <div class="schemas">${schemas.map(([title, schema]) => html`<${Fields} title=${title} schema=${schema} />`)}</div>
    </div>
    ${
      series.length > 0 &&
      html`<${Chart} label="Records per second over the last hour" times=${history.times} height=${120}
      series=${series} format=${(value) => rate(value)} />`
    }
  <//>`;
}
