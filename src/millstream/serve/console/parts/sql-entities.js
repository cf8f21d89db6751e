// What statements return: lists, descriptions, messages.

import { Empty, Facts, Json, Panel, Problem, State, Table, Tag, Value, html } from "../lib/ui.js";
import { Explained } from "./sql-explain.js";

/** The member that has the rows of a list, by the type of the entity. */
const LISTS = {
  streams: "streams",
  tables: "tables",
  queries: "queries",
  kafka_topics: "topics",
  kafka_topics_extended: "topics",
  function_names: "functions",
  properties: "properties",
  variables: "variables",
  connector_list: "connectors",
  connector_plugins_list: "connectorsPlugins",
};

const TITLES = { statusCount: null, replicaInfo: "replicas", queryString: "query", sinkKafkaTopics: "topics" };
const FIRST = ["id", "name", "type", "state"];
const place = (name) =>
  FIRST.includes(name) ? FIRST.indexOf(name) : name === "queryString" ? FIRST.length + 1 : FIRST.length;

const isScalar = (value) => value === null || typeof value !== "object";

function Rows({ label, rows }) {
  if (!rows.length) return html`<${Empty}>There are none.<//>`;
  const names = [...new Set(rows.flatMap(Object.keys))]
    .filter((name) => TITLES[name] !== null)
    .sort((one, other) => place(one) - place(other));
  const columns = names.map((name) => ({
    title: TITLES[name] ?? name,
    kind: "code",
    cell: (row) =>
      name === "state"
        ? html`<${State} state=${row.state} />`
        : html`<${Value} value=${isScalar(row[name]) ? row[name] : Array.isArray(row[name]) ? row[name].join(", ") : row[name]} most=${160} />`,
  }));
  return html`<${Table} label=${label} columns=${columns} rows=${rows} keyOf=${(row) => JSON.stringify(row)} />`;
}

/** A type as SQL has it. */
export function typeText(schema) {
  if (!schema) return "";
  if (schema.type === "ARRAY") return `ARRAY<${typeText(schema.memberSchema)}>`;
  if (schema.type === "MAP") return `MAP<VARCHAR, ${typeText(schema.memberSchema)}>`;
  if (schema.type === "STRUCT")
    return `STRUCT<${(schema.fields ?? []).map((field) => `${field.name} ${typeText(field.schema)}`).join(", ")}>`;
  if (schema.parameters) return `${schema.type}(${schema.parameters.precision}, ${schema.parameters.scale})`;
  return schema.type;
}

const Columns = ({ fields }) =>
  html`<${Table} label="Columns" keyOf=${(field) => field.name} rows=${fields ?? []} columns=${[
    { title: "Column", kind: "code", cell: (field) => field.name },
    { title: "Type", kind: "code", cell: (field) => typeText(field.schema) },
    { title: "", kind: "narrow", cell: (field) => field.type && html`<${Tag}>${field.type.toLowerCase()}<//>` },
  ]} />`;

function Description({ source }) {
  const queries = [...(source.writeQueries ?? []), ...(source.readQueries ?? [])];
  return html`<div class="body"><${Facts} facts=${[
    ["kind", source.type],
    ["topic", source.topic],
    ["key format", source.keyFormat],
    ["value format", source.valueFormat],
    ["window", source.windowType],
    ["timestamp", source.timestamp || null],
    ["partitions", source.partitions || null],
    ["queries", queries.length ? queries.map((query) => query.id).join(", ") : null],
  ]} /></div>
    <${Columns} fields=${source.fields} />
    ${source.statement && html`<pre class="json statement">${source.statement}</pre>`}`;
}

function FunctionDescription({ entity }) {
  return html`<div class="body"><p>${entity.description}</p></div>
    <${Table} label="Variants" rows=${entity.functions ?? []} keyOf=${(each) => JSON.stringify(each.arguments)} columns=${[
      {
        title: "Arguments",
        kind: "code",
        cell: (each) =>
          (each.arguments ?? []).map((argument) => `${argument.type}${argument.isVariadic ? "…" : ""}`).join(", "),
      },
      { title: "Result", kind: "code", cell: (each) => each.returnType },
      { title: "", kind: "wide", cell: (each) => each.description },
    ]} />`;
}

function Content({ entity }) {
  const list = LISTS[entity["@type"]];
  if (list) return html`<${Rows} label="Result" rows=${entity[list] ?? []} />`;
  if (entity.commandStatus) return html`<p class="empty done">${entity.commandStatus.message}</p>`;
  if (entity.sourceDescription) return html`<${Description} source=${entity.sourceDescription} />`;
  if (entity.sourceDescriptions)
    return entity.sourceDescriptions.map(
      (source) => html`<h3 class="of">${source.name}</h3><${Description} source=${source} />`,
    );
  if (entity.queryDescription)
    return html`<${Explained} text=${entity.statementText} plan=${entity.queryDescription.executionPlan} />`;
  if (entity["@type"] === "describe_function") return html`<${FunctionDescription} entity=${entity} />`;
  if (entity["@type"] === "type_list") {
    const rows = Object.entries(entity.types ?? {}).map(([name, schema]) => ({ name, type: typeText(schema) }));
    return html`<${Rows} label="Result" rows=${rows} />`;
  }
  if (typeof entity.message === "string") return html`<p class="empty">${entity.message}</p>`;
  const { "@type": _type, statementText: _text, warnings: _warnings, ...rest } = entity;
  return html`<div class="body"><${Json} value=${rest} /></div>`;
}

/** The answer to one statement. */
export const EntityPanel = ({
  entity,
}) => html`<${Panel} class="result" title=${html`<code>${entity.statementText}</code>`}>
  <${Content} entity=${entity} />
  ${(entity.warnings ?? []).map((warning) => html`<p class="note">${warning.message}</p>`)}
<//>`;

/** A statement that was refused. */
export const RefusedPanel = ({ text, error }) =>
  html`<${Panel} class="result" title=${html`<code>${text}</code>`}><${Problem} error=${error} /><//>`;
