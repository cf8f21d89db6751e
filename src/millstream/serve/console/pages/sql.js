// SQL: an editor, the answers to its statements, and the catalogue.

import { api } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { firstWords, sessionChange, statementsOf } from "../lib/sql-text.js";
import { Dialog, Empty, Head, Panel, Tag, html, useRef, useState } from "../lib/ui.js";
import { Catalog } from "../parts/sql-catalog.js";
import { Mistakes, SqlEditor, useMistakes } from "../parts/sql-editor.js";
import { EntityPanel, RefusedPanel } from "../parts/sql-entities.js";
import { Explained } from "../parts/sql-explain.js";
import { QueryResult } from "../parts/sql-query.js";

const EVERY_MS = 4_000;
const MOST_TEXTS = 100;
const OFFSETS = "auto.offset.reset";

/** What the browser keeps between visits; nothing, if it keeps no data for this page. */
const kept = {
  read(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`millstream.sql.${name}`)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  write(name, value) {
    try {
      localStorage.setItem(`millstream.sql.${name}`, JSON.stringify(value));
    } catch {
      // It ends with the tab.
    }
  },
};

let session = { properties: {}, variables: {} }; // of this tab, also while it shows other pages
let numbers = 0;

function useText() {
  const [text, setText] = useState(() => kept.read("text", ""));
  return [
    text,
    (next) => {
      setText(next);
      kept.write("text", next);
    },
  ];
}

/** Texts that were run: { texts, add, older }. */
function useHistory(text, setText) {
  const [texts, setTexts] = useState(() => kept.read("history", []).filter((each) => typeof each === "string"));
  const place = useRef({ at: -1, draft: "" });
  return {
    texts,
    add(ran) {
      const next = [ran, ...texts.filter((each) => each !== ran)].slice(0, MOST_TEXTS);
      place.current = { at: -1, draft: "" };
      setTexts(next);
      kept.write("history", next);
    },
    clear() {
      setTexts([]);
      kept.write("history", []);
    },
    move(step) {
      const { at, draft } = place.current;
      const next = Math.max(-1, Math.min(texts.length - 1, at + step));
      if (next === at) return;
      place.current = { at: next, draft: at < 0 ? text : draft };
      setText(next < 0 ? place.current.draft : texts[next]);
    },
  };
}

/** The kind of a statement decides who answers it. */
function kindOf(statement) {
  const word = firstWords(statement);
  if (word === "SELECT" || word === "PRINT") return "query";
  return word === "EXPLAIN" ? "explain" : "statement";
}

/** Statements in order; those between queries are one request, so that none is executed if one is wrong. */
function requestsOf(text) {
  const requests = [];
  for (const { text: statement } of statementsOf(text)) {
    const change = sessionChange(statement);
    const kind = change ? "session" : kindOf(statement);
    const last = requests.at(-1);
    if (kind === "statement" && last?.kind === kind) last.text += `\n${statement}`;
    else requests.push({ kind, text: statement, change });
  }
  return requests;
}

const GROUPS = { SET: "properties", UNSET: "properties", DEFINE: "variables", UNDEFINE: "variables" };

function changed({ action, name, value }) {
  const group = GROUPS[action];
  const { [name]: _before, ...rest } = session[group];
  return { ...session, [group]: value === null ? rest : { ...rest, [name]: value } };
}

function Session({ values, change }) {
  const others = Object.entries(values.properties).filter(([name]) => name !== OFFSETS);
  const chip = (name, value, action) => html`<${Tag} title=${`${name} = ${value}`}>${name} = ${value}
    <button class="plain" aria-label=${`Unset ${name}`} onClick=${() => change({ action, name, value: null })}>✕</button><//>`;
  return html`<label class="from">read from<select aria-label="Read from" value=${values.properties[OFFSETS] ?? "latest"}
      onChange=${(event) => change({ action: "SET", name: OFFSETS, value: event.target.value === "latest" ? null : event.target.value })}>
      <option value="latest">now on</option><option value="earliest">the beginning</option></select></label>
    ${others.map(([name, value]) => chip(name, value, "UNSET"))}${Object.entries(values.variables).map(([name, value]) => chip(name, value, "UNDEFINE"))}`;
}

function HistoryDialog({ history, choose, onClose }) {
  return html`<${Dialog} title="History" class="history" onClose=${onClose}>
    ${
      history.texts.length
        ? html`<ol>${history.texts.map((each) => html`<li><button class="plain" onClick=${() => choose(each)}><pre>${each}</pre></button></li>`)}</ol>
          <footer><button onClick=${history.clear}>Clear</button></footer>`
        : html`<${Empty}>Nothing has been run in this browser.<//>`
    }
  <//>`;
}

function Answer({ item }) {
  if (item.kind === "query") return html`<${QueryResult} text=${item.text} session=${item.session} />`;
  if (item.kind === "explain")
    return html`<${Panel} class="result" title=${html`<code>${item.text}</code>`}><${Explained} text=${item.text} /><//>`;
  if (item.kind === "refused") return html`<${RefusedPanel} text=${item.text} error=${item.error} />`;
  if (item.kind === "entity") return html`<${EntityPanel} entity=${item.entity} />`;
  return html`<${Panel} class="result" title=${html`<code>${item.text}</code>`}><p class="empty done">The session of this page has changed.</p><//>`;
}

export default function Sql() {
  const field = useRef();
  const [text, setText] = useText();
  const [answers, setAnswers] = useState([]);
  const [isBusy, setBusy] = useState(false);
  const [hasHistory, setHasHistory] = useState(false);
  const [values, setValues] = useState(session);
  const run = useRef(0);
  const catalog = useData("sql/catalog", { every: EVERY_MS });
  const mistakes = useMistakes(text);
  const history = useHistory(text, setText);
  const isOff = catalog.error?.isMissing ?? false;

  function change(each) {
    session = changed(each);
    setValues(session);
  }
  const show = (item) => setAnswers((last) => [...last, { ...item, id: ++numbers }]);

  async function execute(request) {
    if (request.kind === "session") {
      change(request.change);
      show(request);
    } else if (request.kind === "query") {
      show({ ...request, session });
    } else if (request.kind === "explain") {
      show(request);
    } else {
      const body = { ksql: request.text, streamsProperties: session.properties, sessionVariables: session.variables };
      try {
        for (const entity of await api.post("/ksql", body)) show({ kind: "entity", entity });
      } catch (error) {
        show({ kind: "refused", text: request.text, error });
        throw error;
      }
    }
  }
  async function start() {
    const { selectionStart, selectionEnd, value } = field.current ?? { value: text };
    const chosen = selectionStart !== selectionEnd ? value.slice(selectionStart, selectionEnd) : value;
    const requests = requestsOf(chosen);
    if (!requests.length || isBusy) return;
    const mine = ++run.current;
    history.add(chosen.trim());
    setAnswers([]);
    setBusy(true);
    try {
      for (const request of requests) if (mine === run.current) await execute(request);
    } catch {
      // The answer shows the error. Those behind it may depend on it: they are not executed.
    }
    setBusy(false);
    catalog.reload();
  }
  function explain(what) {
    setAnswers([]);
    if (what !== undefined) show({ kind: "explain", text: what });
    else for (const { text: statement } of statementsOf(text)) show({ kind: "explain", text: statement });
  }
  function insert(name) {
    const { selectionStart, selectionEnd, value } = field.current;
    const next = value.slice(0, selectionStart) + name + value.slice(selectionEnd);
    setText(next);
    requestAnimationFrame(() => {
      field.current?.focus();
      field.current?.setSelectionRange(selectionStart + name.length, selectionStart + name.length);
    });
  }
  function write(next) {
    setText(next);
    field.current?.focus();
  }
  if (isOff) return html`<${Head} title="SQL" /><${Panel}><${Empty}>This server does not run SQL.<//><//>`;
  return html`<${Head} title="SQL" aside=${html`<${Session} values=${values} change=${change} />`}
      actions=${html`<button onClick=${() => setHasHistory(true)} title="Ctrl-Up, Ctrl-Down">History</button>
        <button onClick=${() => explain()} disabled=${!text.trim()}>Explain</button>
        <button class="primary" onClick=${start} disabled=${isBusy || !text.trim()} title="Ctrl-Enter">Run</button>`} />
    <div class="sql">
      <div class="work">
        <${Panel} class="writing"><${SqlEditor} text=${text} setText=${setText} field=${field} mistakes=${mistakes} onRun=${start} onHistory=${history.move} />
          <${Mistakes} text=${text} mistakes=${mistakes} field=${field} /><//>
        ${answers.map((item) => html`<${Answer} key=${item.id} item=${item} />`)}
      </div>
      <${Catalog} answer=${catalog} insert=${insert} write=${write} explain=${explain} />
    </div>
    ${
      hasHistory &&
      html`<${HistoryDialog} history=${history} onClose=${() => setHasHistory(false)}
      choose=${(each) => {
        setHasHistory(false);
        write(each);
      }} />`
    }`;
}
