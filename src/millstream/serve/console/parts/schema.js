// What is known of the keys and values of a topic or store.

import { Empty, Facts, Panel, Tag, html } from "../lib/ui.js";

/** One schema: as the topology of an application describes it. */
export function Schema({ title, schema }) {
  if (!schema)
    return html`<${Panel} title=${title}><${Empty}>No application has told what it is: it is shown as text, or by the schema whose id a record carries.<//><//>`;
  const fields = schema.fields ?? [];
  return html`<${Panel} title=${title} aside=${schema.format && html`<${Tag}>${schema.format}<//>`}>
    <div class="body"><${Facts} facts=${[
      ["serde", html`<code>${schema.serde}</code>`],
      ["type", schema.type && html`<code>${schema.type}</code>`],
      ["name", schema.name && html`<code>${schema.name}</code>`],
      ["subject", schema.subject && html`<code>${schema.subject}</code>`],
      ["null", schema.nullable === undefined ? null : schema.nullable ? "allowed" : "not allowed"],
    ]} /></div>
    ${
      fields.length > 0 &&
      html`<div class="scroll"><table aria-label=${`Fields of the ${title.toLowerCase()}`}><thead><tr><th>Field</th><th>Type</th><th></th></tr></thead>
      <tbody>${fields.map(
        (
          field,
        ) => html`<tr><td class="code">${field.name}</td><td class="code">${field.type}${field.nullable ? html` <small>nullable</small>` : ""}</td>
        <td>${Object.entries(field.tags ?? {}).map(([tag, value]) => html`<${Tag} tone="warn">${value === true || value === null ? tag : `${tag}: ${typeof value === "string" ? value : JSON.stringify(value)}`}<//> `)}</td></tr>`,
      )}</tbody></table></div>`
    }
  <//>`;
}

/** The schemas and the configuration of a topic. */
export function SchemaOf({ topic }) {
  const settings = Object.entries(topic.config ?? {});
  return html`<div class="columns"><${Schema} title="Key" schema=${topic.schemas?.key} /><${Schema} title="Value" schema=${topic.schemas?.value} /></div>
    <${Panel} title="Configuration">
      ${
        settings.length
          ? html`<div class="scroll"><table class="configuration"><tbody>${settings.map(([name, value]) => html`<tr><td class="code">${name}</td><td class="code wide">${String(value)}</td></tr>`)}</tbody></table></div>`
          : html`<${Empty}>The topic has the settings of the log.<//>`
      }
    <//>`;
}
