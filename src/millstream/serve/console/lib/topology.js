// A topology as a graph: operators, topics and stores, with their places on the page.

import { Graph, layout } from "../vendor/dagre.js";

const CHARACTER = 7.2; // the width of a character of a name
const MOST_CHARACTERS = 26;
export const MOST_SCHEMA = 12;
const HEIGHT = { operator: 44, topic: 40, store: 36 };
const MARGIN = 10;
const TITLE = 16; // above the parts of a sub-topology

/** A name that fits, with its beginning and its end. */
export function shortened(name, most = MOST_CHARACTERS) {
  if (name.length <= most) return name;
  const tail = Math.floor((most - 1) / 2);
  return `${name.slice(0, most - 1 - tail)}…${name.slice(-tail)}`;
}

/** The format and the columns of a row of SQL, from a serde such as "sql-json-value<`A` INTEGER>"; null of others. */
export function sqlRow(serde) {
  const match = /^sql-([a-z_]+?)(?:-key|-value)?<(.*)>$/s.exec(serde ?? "");
  return match && { format: match[1], columns: match[2] };
}

/** A schema in one or two words: the name of its type, the format of a row of SQL, its type, or its serde. */
export function schemaName(schema) {
  const part = schema?.value;
  if (!part) return "";
  if (part.name) return part.name;
  const row = sqlRow(part.serde);
  if (row) return row.format;
  const type = part.type ?? "";
  const name = /^STRUCT|^MAP/.test(type) ? "" : type;
  return (name || part.serde || "").toLowerCase();
}

const topicsOf = (node) => (node.topics.length ? node.topics : node.pattern ? [node.pattern] : []);
const isExchange = (node) => node.kind === "repartition" && node.topics.length === 1;

/**
 * The vertices and edges of a topology.
 *
 * A vertex has `id`, `kind` ("operator", "topic" or "store"), `name`, `group` (the sub-topology, or null) and `source`,
 * the object of the topology. An edge has `from`, `to`, `kind` ("records" or "state") and `schema`. A repartition is
 * one vertex, its topic, which stands for the sink that writes it and the source that reads it.
 */
export function graphOf(topology) {
  const vertices = new Map();
  const edges = [];
  const places = new Map(); // the name of an element -> its vertex
  const parts = topology.sub_topologies ?? [];
  const add = (kind, name, group, source) => {
    const id = `${kind}:${name}`;
    if (!vertices.has(id)) vertices.set(id, { id, kind, name, group, source });
    return id;
  };
  const topic = (name, node) =>
    add(
      "topic",
      name,
      null,
      isExchange(node) ? { ...node, name } : { name, pattern: node.pattern, schema: node.schema },
    );
  const groups = parts.map((part) => ({
    id: `group:${part.id}`,
    name: `${part.global ? "global table" : "sub-topology"} ${part.id}`,
  }));
  for (const part of parts) {
    for (const store of part.stores) add("store", store.name, `group:${part.id}`, store);
    for (const node of part.nodes) {
      places.set(
        node.name,
        isExchange(node) ? topic(node.topics[0], node) : add("operator", node.name, `group:${part.id}`, node),
      );
    }
  }
  for (const part of parts) {
    for (const node of part.nodes) {
      const from = places.get(node.name);
      const ends = node.type === "processor" || isExchange(node) ? [] : topicsOf(node);
      for (const name of ends) {
        const place = topic(name, node);
        const isSource = node.type === "source";
        edges.push({
          from: isSource ? place : from,
          to: isSource ? from : place,
          kind: "records",
          schema: node.schema,
          counter: `${isSource ? "read" : "written"}:${name}`,
        });
      }
      for (const child of node.children) {
        edges.push({
          from,
          to: places.get(child),
          kind: "records",
          schema: node.schema,
          counter: `out:${node.operator}`,
        });
      }
      for (const store of [...node.stores, ...(node.global_stores ?? [])]) {
        edges.push({ from, to: add("store", store, `group:${part.id}`, { name: store }), kind: "state" });
      }
    }
  }
  return { vertices, groups, edges: edges.filter((edge) => vertices.has(edge.from) && vertices.has(edge.to)) };
}

/** Lays a graph out from left to right: adds `x`, `y`, `width`, `height` to vertices and groups, `points` to edges. */
export function place({ vertices, groups, edges }) {
  const graph = new Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 24, edgesep: 10, marginx: MARGIN, marginy: MARGIN + TITLE });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const group of groups) graph.setNode(group.id, {});
  for (const vertex of vertices.values()) {
    const length = Math.min(MOST_CHARACTERS, Math.max(vertex.name.length, 12));
    graph.setNode(vertex.id, { width: length * CHARACTER + 20, height: HEIGHT[vertex.kind] });
    if (vertex.group) graph.setParent(vertex.id, vertex.group);
  }
  edges.forEach((edge, number) => {
    // The rate is above the line, the schema below it.
    const width = 5.6 * Math.max(7, Math.min(MOST_SCHEMA, schemaName(edge.schema).length));
    const label = edge.kind === "records" ? { width, height: 24, labelpos: "c" } : { minlen: 1, weight: 0.5 };
    graph.setEdge(edge.from, edge.to, label, String(number));
  });
  layout(graph);
  for (const each of [...vertices.values(), ...groups]) {
    const { x, y, width, height } = graph.node(each.id);
    Object.assign(each, { x, y, width, height });
  }
  for (const group of groups) {
    group.y -= TITLE / 2;
    group.height += TITLE;
  }
  edges.forEach((edge, number) => {
    const { points, x, y } = graph.edge(edge.from, edge.to, String(number));
    Object.assign(edge, { points, x, y });
  });
  const { width, height } = graph.graph();
  return { vertices: [...vertices.values()], groups: groups.filter((group) => group.width > 0), edges, width, height };
}

/** A smooth line through points, as the path of an SVG. */
export function curve(points) {
  const [first, ...rest] = points;
  let line = `M${first.x.toFixed(1)},${first.y.toFixed(1)}`;
  for (let at = 0; at < rest.length; at++) {
    const from = points[at];
    const to = rest[at];
    const middle = (from.x + to.x) / 2;
    line += `C${middle.toFixed(1)},${from.y.toFixed(1)} ${middle.toFixed(1)},${to.y.toFixed(1)} ${to.x.toFixed(1)},${to.y.toFixed(1)}`;
  }
  return line;
}
