// Records that could not be processed: by cause, one by one, and their replay.

import { api, path } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { count, dateTime } from "../lib/format.js";
import { go, href } from "../lib/router.js";
import {
  Action,
  Age,
  Empty,
  Facts,
  Head,
  Json,
  Loading,
  Panel,
  Problem,
  Table,
  Tag,
  Value,
  html,
  useMay,
  useState,
} from "../lib/ui.js";

const EVERY_MS = 4_000;
const NAMES = ["exception", "source", "contract", "rule"];

const shortName = (exception) => (exception ?? "unknown").replace(/^builtins\./, "");
const selection = (group) => Object.fromEntries(NAMES.filter((name) => group[name]).map((name) => [name, group[name]]));
const total = (counts) => Object.values(counts ?? {}).reduce((sum, each) => sum + each, 0);

/** The sentence about a replay that was done, or that would be done. */
function outcome(result) {
  const refused = total(result.refused);
  const reasons = Object.keys(result.refused ?? {}).join("; ");
  return `${count(total(result.replayed))} records ${result.dry_run ? "would be" : "were"} written back to their topics${refused ? `, ${count(refused)} not: ${reasons}` : ""}.`;
}

/** A button that replays a selection, after it has shown what that does. */
function Replay({ topic, choice, number, onDone, children }) {
  const isOperator = useMay("operator");
  return html`<${Action} disabled=${!isOperator || number === 0}
    title=${isOperator ? (number === 0 ? "all of them were replayed" : null) : "this needs the role operator"}
    confirm=${{ title: "Replay", text: `${number === 1 ? "The record is" : `Up to ${count(number)} records are`} written back to the topic and partition from which it came, each dead letter once. The application processes it again.`, yes: "Replay" }}
    run=${async () => onDone(await api.post(`dead-letters/${path(topic)}/replay`, choice))}>${children}<//>`;
}

function Letter({ topic, letter, onDone }) {
  const { source, contract } = letter;
  return html`<div class="letter">
    <${Facts} facts=${[
      ["exception", shortName(letter.exception)],
      ["time", dateTime(letter.timestamp, { millis: true })],
      [
        "from",
        source &&
          html`<a href=${href(["topics", source.topic])}>${source.topic}</a> partition ${source.partition}, offset ${source.offset}`,
      ],
      ["contract", contract && contract.name],
      ["rule", contract && contract.rule],
      ["dead letter", `partition ${letter.partition}, offset ${letter.offset}`],
      ["replayed", letter.replayed ? "yes" : "no"],
      ["returned", letter.returned ? `${letter.returned} times` : null],
    ]} />
    <h3>Error</h3><pre class="json">${letter.message ?? "–"}</pre>
    <div class="columns">
      <div><h3>Key</h3>${letter.key_error ? html`<p class="hint">${letter.key_error}</p>` : null}<${Json} value=${letter.key ?? letter.key_base64} /></div>
      <div><h3>Value</h3>${letter.value_error ? html`<p class="hint">${letter.value_error}</p>` : null}<${Json} value=${letter.value ?? letter.value_base64} /></div>
    </div>
    ${Object.keys(letter.headers ?? {}).length > 0 && html`<h3>Headers</h3><${Json} value=${letter.headers} />`}
    ${letter.stacktrace && html`<details><summary>Stack trace</summary><pre class="json">${letter.stacktrace}</pre></details>`}
    <div class="actions"><${Replay} topic=${topic} choice=${{ places: [[letter.partition, letter.offset]] }} number=${letter.replayed ? 0 : 1} onDone=${onDone}>Replay this record<//></div>
  </div>`;
}

function Letters({ topic, group, isPending, onDone }) {
  const [open, setOpen] = useState(null);
  const parameters = { ...selection(group), pending: isPending, limit: 100 };
  const answer = useData(`dead-letters/${path(topic)}/records`, { parameters, every: EVERY_MS * 2 });
  if (answer.error && !answer.data) return html`<${Problem} error=${answer.error} retry=${answer.reload} />`;
  if (!answer.data) return html`<${Loading} />`;
  const { records } = answer.data;
  const keyOf = (letter) => `${letter.partition}/${letter.offset}`;
  const columns = [
    {
      title: "Time",
      kind: "narrow",
      cell: (letter) => html`<span title=${dateTime(letter.timestamp)}>${dateTime(letter.timestamp)}</span>`,
    },
    {
      title: "Key",
      kind: "code",
      cell: (letter) => html`<${Value} value=${letter.key ?? letter.key_base64} most=${60} />`,
    },
    {
      title: "Value",
      kind: "wide",
      cell: (letter) => html`<${Value} value=${letter.value ?? letter.value_base64} most=${200} />`,
    },
    { title: "Error", kind: "optional", cell: (letter) => html`<${Value} value=${letter.message} most=${120} />` },
    {
      title: "",
      kind: "narrow",
      cell: (letter) =>
        letter.replayed
          ? html`<${Tag} tone="good">replayed<//>`
          : letter.returned
            ? html`<${Tag} tone="warn">failed again<//>`
            : null,
    },
  ];
  if (!records.length) return html`<${Empty}>There is none${isPending ? " that is to be replayed" : ""}.<//>`;
  const done = (result) => {
    answer.reload();
    onDone(result);
  };
  return html`<${Table} label="Dead letters" columns=${columns} rows=${records} keyOf=${keyOf} isOpen=${(letter) => keyOf(letter) === open}
      onOpen=${(letter) => setOpen(keyOf(letter) === open ? null : keyOf(letter))}
      details=${(letter) => html`<${Letter} topic=${topic} letter=${letter} onDone=${done} />`} />
    ${answer.data.total > records.length && html`<p class="empty">The newest ${records.length} of ${count(answer.data.total)} are shown.</p>`}`;
}

function Cause({ topic, group, isOpen, open, isPending, reload }) {
  const [result, setResult] = useState(null);
  const done = (answer) => {
    setResult(answer);
    reload();
  };
  return html`<${Panel} class="cause">
    <div class="summary" data-row="" tabindex="0" aria-expanded=${isOpen} role="button" onClick=${open}>
      <span class="how-many"><strong>${count(group.count)}</strong><small>${group.pending === group.count ? "to replay" : `${count(group.pending)} to replay`}</small></span>
      <span class="why">
        <span><strong>${group.contract ? `contract ${group.contract}` : shortName(group.exception)}</strong>
          ${group.rule && html`<${Tag} tone="warn">${group.rule}<//>`}
          ${group.source && html`<small>records of ${group.source}</small>`}</span>
        <code class="value">${group.message ?? ""}</code>
      </span>
      <small class="when">last <${Age} ms=${group.last} /></small>
    </div>
    ${
      isOpen &&
      html`<div class="of-cause">
      <div class="actions">
        <${Replay} topic=${topic} choice=${selection(group)} number=${group.pending} onDone=${done}>Replay all ${count(group.pending)}<//>
        ${result && html`<${Tag} tone="good">${outcome(result)}<//>`}
      </div>
      <${Letters} topic=${topic} group=${group} isPending=${isPending} onDone=${done} />
    </div>`
    }
  <//>`;
}

export default function DeadLetters({ parts, query }) {
  const answer = useData("dead-letters", { every: EVERY_MS });
  const [text, setText] = useState("");
  const [isPending, setPending] = useState(false);
  const topics = (answer.data?.topics ?? []).filter(({ topic }) => !parts.length || topic === parts[0]);
  const address = (changes) => href(["dead-letters", ...parts], { ...query, ...changes });
  const identity = (topic, group) => JSON.stringify([topic, ...NAMES.map((name) => group[name])]);
  const matches = (topic, group) =>
    (!isPending || group.pending > 0) &&
    [topic, group.message, ...NAMES.map((name) => group[name])].some((each) =>
      (each ?? "").toLowerCase().includes(text.toLowerCase()),
    );
  const shown = topics.map(({ topic, groups }) => [topic, groups.filter((group) => matches(topic, group))]);
  const number = topics.reduce((sum, { groups }) => sum + groups.reduce((count, group) => count + group.count, 0), 0);
  return html`<${Head} title="Dead letters" aside=${answer.data && `${count(number)} records`}
      actions=${html`<label class="check"><input type="checkbox" checked=${isPending} onChange=${(event) => setPending(event.target.checked)} /> to replay</label>
        <input data-search placeholder="search causes" aria-label="Search causes" value=${text} onInput=${(event) => setText(event.target.value)} />`} />
    ${answer.error && html`<${Problem} error=${answer.error} retry=${answer.reload} />`}
    ${answer.isLoading && html`<${Loading} />`}
    ${
      answer.data &&
      !number &&
      html`<${Panel}><${Empty}>There are none. An application writes the records that it cannot process to the topic
      <code> errors.dead.letter.queue.topic.name</code> of its configuration.<//><//>`
    }
    ${shown.map(
      ([topic, groups]) =>
        groups.length > 0 &&
        html`<section class="causes" key=${topic}>
      <h2><a href=${href(["topics", topic])}>${topic}</a></h2>
      ${groups.map((group) => {
        const id = identity(topic, group);
        const isOpen = query.cause === id;
        return html`<${Cause} key=${id} topic=${topic} group=${group} isOpen=${isOpen} isPending=${isPending} reload=${answer.reload}
          open=${() => go(address({ cause: isOpen ? null : id }), { replace: true })} />`;
      })}
    </section>`,
    )}
    ${number > 0 && shown.every(([, groups]) => !groups.length) && html`<${Panel}><${Empty}>No cause matches.<//><//>`}`;
}
