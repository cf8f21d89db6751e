// A dialog that writes a record to a topic: for operators.

import { api, path } from "../lib/api.js";
import { parseExact } from "../lib/exact.js";
import { count } from "../lib/format.js";
import { Dialog, Problem, html, useMay, useState } from "../lib/ui.js";

const KINDS = { json: "JSON", text: "text", null: "null" };

/** The kind in which a part of a record is best written: text for strings, JSON for everything else. */
function kindFor(value, schema) {
  if (value !== undefined) return value === null ? "null" : typeof value === "string" ? "text" : "json";
  return !schema || /^string$/i.test(schema.serde ?? "") || schema.type === "STRING" ? "text" : "json";
}

const textOf = (value) =>
  value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);

/** The value of a field: null, its text, or what its text is in JSON. */
function parsed({ kind, text }, name) {
  if (kind === "null") return null;
  if (kind === "text") return text;
  try {
    return parseExact(text);
  } catch (error) {
    throw Object.assign(new Error(`the ${name} is not JSON: ${error.message}`), {
      hint: "choose text, if it is a text",
    });
  }
}

function Part({ name, part, change, schema }) {
  const rows = name === "Key" ? 1 : 6;
  return html`<div class="part">
    <label><span>${name} <code>${schema?.type ?? schema?.serde ?? ""}</code></span>
      <textarea aria-label=${name} rows=${rows} spellcheck="false" disabled=${part.kind === "null"} value=${part.kind === "null" ? "" : part.text} onInput=${(event) => change({ ...part, text: event.target.value })} /></label>
    <label>as<select aria-label=${`${name} as`} value=${part.kind} onChange=${(event) => change({ ...part, kind: event.target.value })}>
      ${Object.entries(KINDS).map(([kind, title]) => html`<option value=${kind}>${title}</option>`)}</select></label>
  </div>`;
}

function HeaderFields({ headers, change }) {
  const set = (at, pair) => change(headers.map((each, place) => (place === at ? pair : each)));
  return html`<div class="header-fields">
    ${headers.map(
      ([name, value], at) => html`<div>
      <input aria-label="Header" placeholder="header" value=${name} onInput=${(event) => set(at, [event.target.value, value])} />
      <input aria-label="Value of the header" placeholder="value" value=${value ?? ""} onInput=${(event) => set(at, [name, event.target.value])} />
      <button type="button" class="plain" aria-label="Remove the header" onClick=${() => change(headers.filter((_each, place) => place !== at))}>✕</button>
    </div>`,
    )}
    <button type="button" class="plain" onClick=${() => change([...headers, ["", ""]])}>+ header</button>
  </div>`;
}

function Form({ topic, record, onClose, onDone }) {
  const first = (name) => {
    const value = record?.[name];
    const kind = kindFor(record ? value : undefined, topic.schemas?.[name]);
    return { kind, text: record ? textOf(value) : "" };
  };
  const [key, setKey] = useState(() => first("key"));
  const [value, setValue] = useState(() => first("value"));
  const [headers, setHeaders] = useState(() =>
    (record?.headers ?? []).filter(([, each]) => each === null || typeof each === "string"),
  );
  const [partition, setPartition] = useState("");
  const [state, setState] = useState({ error: null, isBusy: false, written: null });
  async function submit(event) {
    event.preventDefault();
    setState({ error: null, isBusy: true, written: null });
    try {
      const written = {
        key: parsed(key, "key"),
        value: parsed(value, "value"),
        headers: headers.filter(([name]) => name !== ""),
      };
      if (partition !== "") written.partition = Number(partition);
      const answer = await api.post(`topics/${path(topic.name)}/records`, { records: [written] });
      setState({ error: null, isBusy: false, written: answer.records[0] });
      onDone?.();
    } catch (error) {
      setState({ error, isBusy: false, written: null });
    }
  }
  const isBytes = record && (record.value_base64 !== undefined || record.key_base64 !== undefined);
  return html`<${Dialog} class="produce" title=${`Produce a record to ${topic.name}`} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${isBytes && html`<p class="note">The record has bytes that are no text. They are not in this form.</p>`}
      <${Part} name="Key" part=${key} change=${setKey} schema=${topic.schemas?.key} />
      <${Part} name="Value" part=${value} change=${setValue} schema=${topic.schemas?.value} />
      <${HeaderFields} headers=${headers} change=${setHeaders} />
      <label>Partition<select aria-label="Partition" value=${partition} onChange=${(event) => setPartition(event.target.value)}>
        <option value="">by the key</option>${topic.offsets.map((each) => html`<option value=${each.partition}>${each.partition}</option>`)}</select></label>
      ${state.error && html`<${Problem} error=${state.error} />`}
      ${state.written && html`<p class="done" role="status">Written to partition ${state.written.partition}, offset ${count(state.written.offset)}.</p>`}
      <footer><button type="button" onClick=${onClose}>Close</button><button class="primary" disabled=${state.isBusy}>Produce</button></footer>
    </form>
  <//>`;
}

/**
 * A button that opens the dialog.
 *
 * @param topic as its route returns it.
 * @param record a record that the new one begins as; null: none.
 */
export function Produce({ topic, record = null, onDone }) {
  const isOperator = useMay("operator");
  const [isOpen, setOpen] = useState(false);
  return html`<button disabled=${!isOperator} title=${isOperator ? null : "this needs the role operator"} onClick=${() => setOpen(true)}>
      ${record ? "Produce one like it" : "Produce a record"}</button>
    ${isOpen && html`<${Form} topic=${topic} record=${record} onClose=${() => setOpen(false)} onDone=${onDone} />`}`;
}
