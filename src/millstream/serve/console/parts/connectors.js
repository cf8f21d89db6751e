// The connectors of an application: their states, tasks and figures, and commands for those who may.

import { api, path } from "../lib/api.js";
import { bytes, count, duration } from "../lib/format.js";
import { Action, Panel, State, Tag, html, useMay } from "../lib/ui.js";

/** A figure that a connector reports: names say what it is. */
function figure(name, value) {
  if (name.endsWith("bytes")) return bytes(value);
  return name.endsWith("ms") ? duration(value) : count(value);
}

const sum = (counts) => Object.values(counts ?? {}).reduce((total, each) => total + each, 0);

function Commands({ application, name, state, reload }) {
  const isAdmin = useMay("admin");
  const run = (command) => async () => {
    await api.post(`applications/${path(application.id)}/connectors/${path(name)}/${command}`);
    reload();
  };
  if (!application.live) return null;
  const title = isAdmin ? null : "this needs the role admin";
  const command = state === "PAUSED" ? "resume" : "pause";
  return html`<${Action} run=${run(command)} disabled=${!isAdmin} title=${title}>${command === "pause" ? "Pause" : "Resume"}<//>
    <${Action} run=${run("restart")} disabled=${!isAdmin} title=${title}>Restart<//>`;
}

function Task({ task }) {
  const dropped = sum(task.dropped);
  return html`<tr data-row="">
    <td class="code">${task.task}</td>
    <td><${State} state=${task.state} /></td>
    <td class="number">${count(task.records)}</td>
    <td class="number">${dropped ? count(dropped) : ""}</td>
    <td>${Object.entries(task.gauges).map(([name, value]) => html`<span class="gauge"><small>${name}</small> ${figure(name, value)} </span>`)}</td>
    <td class="wide">${task.error ? html`<pre>${task.error}</pre>${task.hint && html`<p class="hint">${task.hint}</p>`}` : task.progress}</td>
  </tr>`;
}

export function Connectors({ application, reload }) {
  const connectors = Object.entries(application.metrics?.connectors ?? {});
  return connectors.map(
    ([name, facts]) => html`<${Panel} key=${name} title=${name}
      aside=${html`<${State} state=${application.live ? facts.state : application.state} /> <${Tag}>${facts.type}<//> <small>${facts.class}</small>
        <${Commands} application=${application} name=${name} state=${facts.state} reload=${reload} />`}>
      <div class="body"><p>Promise: ${facts.promise}${facts.reason && html`, because ${facts.reason}`}.
        ${facts.topics.length > 0 && html` Topics: ${facts.topics.map((topic, at) => html`${at > 0 && ", "}<a href=${`#/topics/${path(topic)}`}>${topic}</a>`)}.`}</p></div>
      <div class="scroll"><table>
        <thead><tr><th>task</th><th>state</th><th class="number">records</th><th class="number">dropped</th><th>figures</th><th></th></tr></thead>
        <tbody>${facts.tasks.map((task) => html`<${Task} key=${task.task} task=${task} />`)}</tbody>
      </table></div>
    <//>`,
  );
}
