// The topology as a picture with live figures.

import { rate } from "../lib/format.js";
import { MOST_SCHEMA, curve, graphOf, place, schemaName, shortened } from "../lib/topology.js";
import { Problem, html, useEffect, useMemo, useRef, useState } from "../lib/ui.js";

const LEAST_SCALE = 0.6;
const SCROLLED_SCALE = 0.8; // of a picture that does not fit anyway
const KINDS = { operator: "operator", topic: "topic", store: "store" };

/** What is shown below the name of a vertex. */
function figure(vertex, rates, metrics) {
  const { name, source } = vertex;
  if (vertex.kind === "operator") {
    const received = rates.of(`in:${source.operator}`);
    return rate(source.type === "source" ? (rates.of(`out:${source.operator}`) ?? received) : received);
  }
  if (vertex.kind === "store") {
    const rows = metrics?.stores?.[name]?.rows;
    return rows === undefined ? "" : `${rows.toLocaleString("en-US")} rows`;
  }
  const flow = rates.of(`written:${name}`) ?? rates.of(`read:${name}`);
  const lag = metrics?.sources?.[name]?.lag;
  return `${rate(flow)}${lag ? ` · lag ${lag.toLocaleString("en-US")}` : ""}`;
}

/** Records per second on an edge; null if it is not known. */
function flow(edge, rates, parents) {
  const child = edge.to.startsWith("operator:") && parents.get(edge.to) === 1;
  return rates.of(edge.counter) ?? (child ? rates.of(`in:${edge.to.slice("operator:".length)}`) : null);
}

const dropped = ({ source: { operator } }, metrics) => {
  const counts = operator ? ((metrics?.nodes?.[operator] ?? metrics?.operators?.[operator])?.dropped ?? {}) : {};
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
};

function Shape({ kind, width, height }) {
  if (kind === "store") {
    const lip = 5;
    const [left, right, top, bottom] = [-width / 2, width / 2, -height / 2, height / 2];
    const arc = `A${width / 2},${lip} 0 0`;
    return html`<path class="shape" d=${`M${left},${top + lip} ${arc} 1 ${right},${top + lip} V${bottom - lip} ${arc} 1 ${left},${bottom - lip} Z`} />
      <path class="lip" d=${`M${left},${top + lip} ${arc} 0 ${right},${top + lip}`} />`;
  }
  return html`<rect class="shape" x=${-width / 2} y=${-height / 2} width=${width} height=${height} rx=${kind === "topic" ? height / 2 : 6} />`;
}

function Vertex({ vertex, isChosen, onChoose, rates, metrics }) {
  const lost = dropped(vertex, metrics);
  const below = figure(vertex, rates, metrics);
  const choose = (event) => {
    event.preventDefault();
    onChoose(isChosen ? null : vertex.id);
  };
  return html`<g class=${`vertex ${vertex.kind} ${vertex.source.type ?? ""} ${isChosen ? "chosen" : ""}`}
      transform=${`translate(${vertex.x},${vertex.y})`} tabindex="0" role="button" data-row=""
      aria-label=${`${KINDS[vertex.kind]} ${vertex.name}`} aria-pressed=${isChosen} data-vertex=${vertex.id} onClick=${choose}>
    <title>${vertex.name}</title>
    <${Shape} ...${vertex} />
    <text class="name" y=${below ? -3 : 4}>${shortened(vertex.name.replace(/^-/, ""))}</text>
    ${below && html`<text class="figure" y="13">${below}</text>`}
    ${
      lost > 0 &&
      html`<g class="lost" transform=${`translate(${vertex.width / 2 - 2},${-vertex.height / 2 + 2})`}>
      <title>${`${lost.toLocaleString("en-US")} records dropped`}</title>
      <rect x=${-14 - String(lost).length * 3} y="-8" width=${22 + String(lost).length * 6} height="15" rx="7.500" />
      <text x="-3" y="3">−${lost.toLocaleString("en-US")}</text>
    </g>`
    }
  </g>`;
}

function Edge({ edge, rates, parents, isNear }) {
  const isState = edge.kind === "state";
  const value = isState ? null : flow(edge, rates, parents);
  return html`<g class=${`edge ${edge.kind} ${value ? "moving" : ""} ${isNear ? "near" : ""}`}>
    <path d=${curve(edge.points)} marker-end=${isState ? null : "url(#arrow)"} />
    ${
      !isState &&
      edge.x !== undefined &&
      html`<text x=${edge.x} y=${edge.y - 5}>${value === null ? "" : rate(value)}</text>
      <text class="schema" x=${edge.x} y=${edge.y + 12}>
        <title>${edge.schema?.value?.type ?? edge.schema?.value?.serde ?? "no schema is known"}</title>${shortened(schemaName(edge.schema), MOST_SCHEMA)}</text>`
    }
  </g>`;
}

/**
 * The picture of a topology.
 *
 * @param topology as the route returns it.
 * @param rates the rates of the application.
 * @param metrics its metrics.
 * @param chosen the id of the chosen vertex.
 * @param onChoose called with the id of a vertex, or null.
 */
export function TopologyGraph({ topology, rates, metrics, chosen, onChoose }) {
  const graph = useMemo(() => {
    try {
      return place(graphOf(topology));
    } catch (error) {
      return { error };
    }
  }, [topology]);
  const box = useRef();
  const [fit, setFit] = useState(1);
  const [zoom, setZoom] = useState(1);
  useEffect(() => {
    const canvas = box.current;
    if (!canvas) return undefined;
    const observer = new ResizeObserver(() => {
      const whole = (canvas.clientWidth - 14) / graph.width;
      setFit(whole < LEAST_SCALE ? SCROLLED_SCALE : Math.min(1, whole));
    });
    observer.observe(canvas);
    return () => observer.disconnect();
  }, [graph]);
  if (graph.error)
    return html`<${Problem} error=${{ message: "the topology could not be drawn", hint: "see its text on the page Configuration" }} />`;
  const parents = new Map();
  for (const edge of graph.edges) parents.set(edge.to, (parents.get(edge.to) ?? 0) + 1);
  const scale = fit * zoom;
  const step = (factor) => setZoom((value) => Math.min(3, Math.max(0.3, value * factor)));
  return html`<div class="topology">
    <div class="canvas" ref=${box}>
      <svg width=${graph.width * scale} height=${graph.height * scale} viewBox=${`0 0 ${graph.width} ${graph.height}`} role="group" aria-label="Topology">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7.500" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0.500 8 4 0 7.500z" />
          </marker>
        </defs>
        ${graph.groups.map(
          (group) => html`<g class="group" key=${group.id}>
          <rect x=${group.x - group.width / 2} y=${group.y - group.height / 2} width=${group.width} height=${group.height} rx="10" />
          <text x=${group.x - group.width / 2 + 10} y=${group.y - group.height / 2 + 15}>${group.name}</text>
        </g>`,
        )}
        ${graph.edges.map(
          (edge, number) => html`<${Edge} key=${number} edge=${edge} rates=${rates} parents=${parents}
          isNear=${chosen !== null && (edge.from === chosen || edge.to === chosen)} />`,
        )}
        ${graph.vertices.map(
          (vertex) => html`<${Vertex} key=${vertex.id} vertex=${vertex} rates=${rates} metrics=${metrics}
          isChosen=${vertex.id === chosen} onChoose=${onChoose} />`,
        )}
      </svg>
    </div>
    <footer>
      <div class="legend" aria-hidden="true"><span class="topic">topic</span><span class="operator">operator</span><span class="store">store</span>
        <span class="lost">−n: dropped records</span></div>
      <div class="zoom">
        <button class="plain" onClick=${() => step(1 / 1.25)} aria-label="Smaller" title="Smaller">−</button>
        <button class="plain" onClick=${() => setZoom(1)} aria-label="Fit" title="Fit">◻</button>
        <button class="plain" onClick=${() => step(1.25)} aria-label="Larger" title="Larger">+</button>
      </div>
    </footer>
  </div>`;
}
