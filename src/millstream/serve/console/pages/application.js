// One application: its topology with live figures, its last hour, its errors, its configuration.

import { api, path } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useRates } from "../lib/figures.js";
import { bytes, compact, count, dateTime, duration, rate } from "../lib/format.js";
import { onEscape } from "../lib/keyboard.js";
import { go, href } from "../lib/router.js";
import {
  Action,
  Age,
  Empty,
  Facts,
  Head,
  Loading,
  Panel,
  Problem,
  State,
  Tabs,
  Tag,
  html,
  useEffect,
  useMay,
  useState,
} from "../lib/ui.js";
import { ApplicationCharts } from "../parts/application-charts.js";
import { Connectors } from "../parts/connectors.js";
import { FailedRecord } from "../parts/failed-record.js";
import { TopologyGraph } from "../parts/topology-graph.js";
import { VertexDetails } from "../parts/vertex-details.js";

const EVERY_MS = 1_500;
const HISTORY_MS = 10_000;
const TITLES = { topology: "Topology", connectors: "Connectors", charts: "Charts", errors: "Errors", configuration: "Configuration" };

function merged(data, event) {
  const { channel: _channel, application, ...rest } = event;
  const next = typeof application === "object" && application !== null ? application : rest;
  return next.metrics ? { ...data, ...next } : null;
}

/** Pause, resume and stop, for those who may. */
function Commands({ application, reload }) {
  const isOperator = useMay("operator");
  const isAdmin = useMay("admin");
  const [sent, setSent] = useState(null);
  useEffect(() => setSent(null), [application.state]);
  if (!application.live) return null;
  const run = (command) => async () => {
    await api.post(`applications/${path(application.id)}/${command}`);
    setSent(command);
    reload();
  };
  const isPaused = application.state === "PAUSED";
  const command = isPaused ? "resume" : "pause";
  return html`${sent && html`<${Tag} tone="busy">${sent} sent<//>`}
    <${Action} run=${run(command)} disabled=${!isOperator} title=${isOperator ? null : "this needs the role operator"}>${isPaused ? "Resume" : "Pause"}<//>
    <${Action} class="danger" run=${run("stop")} disabled=${!isAdmin} title=${isAdmin ? null : "this needs the role admin"}
      confirm=${{ title: "Stop the application", text: `${application.id} commits what it has processed, and its process stops. The console cannot start it again.`, yes: "Stop" }}>Stop<//>`;
}

const last = (values) => (values ?? []).slice(-5).findLast((value) => value !== null) ?? null;

function Figures({ application, history, unit }) {
  const metrics = application.metrics ?? {};
  const memory = Object.values(metrics.memory ?? {}).reduce((sum, each) => sum + each, 0);
  return html`<${Panel} class="figures"><div class="body"><${Facts} facts=${[
    ["in", rate(application.rate_in)],
    ["out", rate(application.rate_out)],
    [application.live ? "lag" : "lag at the end", compact(application.lag)],
    ["latency", duration(application.latency_ms ?? (application.live ? last(history?.series.latency_ms) : null))],
    [`last ${unit}`, metrics.last_batch_seconds === undefined ? null : duration(metrics.last_batch_seconds * 1000)],
    [unit === "batch" ? "batches" : "commits", metrics.batches === undefined ? null : count(metrics.batches)],
    ["state", bytes(application.state_bytes)],
    ["memory", memory ? bytes(memory) : null],
    ["dropped", count(application.dropped)],
    ["restarts", count(application.restarts)],
    ["waiting", metrics.waiting ? count(metrics.waiting) : null],
  ]} /></div><//>`;
}

/** How the last batch or commit was spent. */
function Phases({ phases, unit }) {
  const parts = Object.entries(phases ?? {}).filter(([, seconds]) => seconds > 0);
  const sum = parts.reduce((total, [, seconds]) => total + seconds, 0);
  if (!sum) return null;
  return html`<div class="phases" aria-label=${`The last ${unit} by phase`}>
    <div class="bar-of">${parts.map(
      ([name, seconds], at) => html`<i key=${name} title=${name}
      style=${{ flexGrow: seconds / sum, background: `var(--series-${(at % 6) + 1})` }} />`,
    )}</div>
    <p>${parts.map(([name, seconds], at) => html`<span><i style=${{ background: `var(--series-${(at % 6) + 1})` }} />${name} ${duration(seconds * 1000)}</span>`)}</p>
  </div>`;
}

function Topology({ application, answer, rates, history, chosen, choose, unit }) {
  useEffect(() => onEscape(() => choose(null)), [choose]);
  if (answer.error) return html`<${Panel}><${Empty}>${answer.error.message}<//><//>`;
  if (!answer.data) return html`<${Panel}><${Loading} /><//>`;
  const details =
    chosen &&
    html`<${VertexDetails} chosen=${chosen} topology=${answer.data} application=${application} rates=${rates}
    history=${history} onClose=${() => choose(null)} />`;
  return html`<div class=${details ? "with-details" : null}>
      <${Panel} class="picture"><${TopologyGraph} topology=${answer.data} rates=${rates} metrics=${application.metrics} chosen=${chosen} onChoose=${choose} /><//>
      ${details}
    </div>
    <div class="columns">
      <${Panel} title=${`Last ${unit} by phase`}><div class="body"><${Phases} phases=${application.metrics?.phases} unit=${unit} /></div><//>
      <${Dropped} metrics=${application.metrics} />
    </div>`;
}

/** What the application drops, by operator and reason. */
function Dropped({ metrics }) {
  const rows = Object.entries(metrics?.dropped ?? {}).sort(([, one], [, other]) => other - one);
  return html`<${Panel} title="Dropped records" aside=${html`<a href="#/dead-letters">dead letters</a>`}>
    ${
      rows.length
        ? html`<ul class="pairs">${rows.map(([reason, number]) => html`<li><span>${reason}</span><strong>${count(number)}</strong></li>`)}</ul>`
        : html`<${Empty}>None.<//>`
    }
  <//>`;
}

function Errors({ errors }) {
  if (!errors?.length) return html`<${Panel}><${Empty}>There were no errors in this run.<//><//>`;
  return html`<${Panel} title="The last errors">
    <ol class="errors">${[...errors].reverse().map(
      (error) => html`<li key=${error.time} data-row="" tabindex="0">
      <header><time title=${dateTime(error.time)}><${Age} ms=${error.time} /></time> <${Tag} tone=${error.code === "retry" ? "warn" : "bad"}>${error.code}<//>
        ${error.at && html`<code>${error.at}</code>`}</header>
      <pre>${error.message}</pre>
      ${error.hint && html`<p class="hint">${error.hint}</p>`}
      <${FailedRecord} message=${error.message} />
    </li>`,
    )}</ol>
  <//>`;
}

function Configuration({ application }) {
  const answer = useData(`applications/${path(application.id)}/configuration`);
  const [text, setText] = useState("");
  if (answer.error) return html`<${Problem} error=${answer.error} />`;
  if (!answer.data) return html`<${Panel}><${Loading} /><//>`;
  const rows = Object.entries(answer.data).filter(([name]) => name.includes(text.trim().toLowerCase()));
  return html`<${Panel} title="Configuration" aside=${html`<input data-search placeholder="search" aria-label="Search" value=${text}
      onInput=${(event) => setText(event.target.value)} />`}>
    ${
      rows.length
        ? html`<div class="scroll"><table class="configuration"><tbody>${rows.map(
            ([name, value]) => html`<tr key=${name}><td class="code">${name}</td>
          <td class="code wide">${value === null ? html`<span class="null">not set</span>` : String(value)}</td></tr>`,
          )}</tbody></table></div>`
        : html`<${Empty}>There is no such key, or the application has not reported its configuration.<//>`
    }
  <//>`;
}

/** The choice of an application, if none is in the address. */
function Choice() {
  const answer = useData("applications", { every: 5_000 });
  const applications = answer.data?.applications ?? [];
  useEffect(() => {
    if (applications.length === 1) go(href(["applications", applications[0].id]), { replace: true });
  }, [applications.length]);
  return html`<${Head} title="Applications" />
    ${answer.error && html`<${Problem} error=${answer.error} />`}
    ${answer.data && !applications.length && html`<${Panel}><${Empty}>No application has run on this data yet.<//><//>`}
    <div class="cards">${applications.map(
      (each) => html`<a class="panel card" key=${each.id} data-row="" href=${href(["applications", each.id])}>
      <strong>${each.id}</strong><${State} state=${each.state} late=${each.late} />
      <small>${rate(each.rate_in)} in · ${rate(each.rate_out)} out · lag ${compact(each.lag)}</small>
    </a>`,
    )}</div>`;
}

export default function Page({ parts, query }) {
  return parts.length ? html`<${Application} id=${parts[0]} query=${query} />` : html`<${Choice} />`;
}

function Application({ id, query }) {
  const route = `applications/${path(id)}`;
  const answer = useData(route, { every: EVERY_MS, channel: `application:${id}`, merge: merged });
  const application = answer.data;
  const run = application?.run ?? null; // a new run may have another topology
  const topology = useData(application ? `${route}/topology` : null, { parameters: { format: "json", run } });
  const history = useData(`${route}/history`, { parameters: { since: 0 }, every: HISTORY_MS });
  const rates = useRates(application);
  const others = useData("applications");
  const hasConnectors = Object.keys(application?.metrics?.connectors ?? {}).length > 0;
  const hasTopology = !hasConnectors || (topology.data?.sub_topologies ?? [null]).length > 0;
  const first = hasTopology ? "topology" : "connectors";
  const tab = TITLES[query.tab] ? query.tab : first;
  const unit = application?.mode === "micro_batch" ? "batch" : "commit";
  const address = (changes) => href(["applications", id], { ...query, ...changes });
  const choose = (vertex) => go(address({ part: vertex }), { replace: true });
  if (answer.error && !application)
    return html`<${Head} title=${id} /><${Problem} error=${answer.error} retry=${answer.reload} />`;
  if (!application) return html`<${Head} title=${id} /><${Loading} />`;
  const failure = application.error ?? null;
  const offered = { topology: hasTopology, connectors: hasConnectors };
  const tabs = Object.entries(TITLES)
    .filter(([name]) => offered[name] ?? true)
    .map(([name, title]) => ({
    id: name,
    href: href(["applications", id], name === first ? {} : { tab: name }),
    title: name === "errors" && application.errors?.length ? `${title} (${application.errors.length})` : title,
  }));
  return html`<${Head} title=${id}
      aside=${html`<${State} state=${application.state} late=${application.late} />
        ${application.mode && html`<${Tag}>${application.mode}<//>`}
        ${application.started && html`<small>started <${Age} ms=${application.started} /></small>`}`}
      actions=${html`<${Switch} id=${id} applications=${others.data?.applications} /><${Commands} application=${application} reload=${answer.reload} />`} />
    ${answer.error && html`<${Problem} error=${answer.error} />`}
    ${failure && html`<div class="problem" role="alert"><strong>The application has failed</strong><pre>${failure.message}</pre>${failure.hint && html`<p>${failure.hint}</p>`}</div>`}
    ${
      application.state === "KILLED" &&
      html`<div class="problem" role="alert"><strong>The process was killed</strong>
      <p>It ended without a last report. Its state is that of its last commit. Start it again: it continues from there.</p></div>`
    }
    ${application.problem && html`<div class="note"><strong>No progress</strong><pre>${application.problem}</pre></div>`}
    <${Figures} application=${application} history=${history.data} unit=${unit} />
    <${Tabs} tabs=${tabs} current=${tab} />
    ${
      tab === "topology" &&
      html`<${Topology} application=${application} answer=${topology} rates=${rates} history=${history.data}
      chosen=${query.part ?? null} choose=${choose} unit=${unit} />`
    }
    ${tab === "connectors" && html`<${Connectors} application=${application} reload=${answer.reload} />`}
    ${tab === "charts" && html`<${ApplicationCharts} history=${history} unit=${unit} />`}
    ${tab === "errors" && html`<${Errors} errors=${application.errors} />`}
    ${tab === "configuration" && html`<${Configuration} application=${application} />`}`;
}

/** Goes to another application. */
function Switch({ id, applications }) {
  if (!applications || applications.length < 2) return null;
  return html`<select aria-label="Application" value=${id} onChange=${(event) => go(href(["applications", event.target.value]))}>
    ${applications.map((each) => html`<option key=${each.id} value=${each.id}>${each.id}</option>`)}
  </select>`;
}
