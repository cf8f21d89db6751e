// Runs a query, and delivers its rows as they come. The rows are those of ksqlDB's API: objects with `header`, `row`,
// `finalMessage` or `errorMessage`, one on each line of a JSON array. PRINT answers with lines of text.

import { ApiError, api } from "./api.js";
import { parseExact } from "./exact.js";

const TYPE = "application/vnd.ksql.v1+json";

/** The columns of a header: { name, type, isKey }. */
export function columnsOf(schema) {
  const parts = [];
  let depth = 0;
  let isQuoted = false;
  let start = 0;
  for (let at = 0; at < schema.length; at++) {
    const character = schema[at];
    if (character === "`") isQuoted = !isQuoted;
    else if (isQuoted) continue;
    else if (character === "<" || character === "(") depth++;
    else if (character === ">" || character === ")") depth--;
    else if (character === "," && depth === 0) {
      parts.push(schema.slice(start, at));
      start = at + 1;
    }
  }
  if (schema.trim()) parts.push(schema.slice(start));
  return parts.map((part) => {
    const [, name, type] = /^`([\s\S]*?)`\s+([\s\S]*)$/.exec(part.trim()) ?? [null, part.trim(), ""];
    return { name, type: type.replace(/ KEY$/, ""), isKey: type.endsWith(" KEY") };
  });
}

/** Splits an answer into its items. An item is delivered when it is complete, not only when the next one begins. */
class Items {
  constructor() {
    this.rest = "";
  }

  add(text) {
    const pieces = (this.rest + text).split("\n");
    this.rest = pieces.pop();
    const items = pieces.map(clean).filter(Boolean).map(parseExact);
    const last = clean(this.rest);
    if (last.endsWith("}")) {
      try {
        items.push(parseExact(last));
        this.rest = "";
      } catch {
        // The rest of it comes later.
      }
    }
    return items;
  }
}

const clean = (piece) =>
  piece
    .trim()
    .replace(/^[[,]\s*/, "")
    .replace(/\s*[,\]]$/, "");

// With HTTP/1.1 a browser opens six connections to a server, for all of its tabs. Queries take four of them: one is for
// events, one for everything else.
const MOST_QUERIES = 4;
const ATTEMPTS = 10; // queries that were stopped a moment ago give their places back
const ATTEMPT_MS = 100;

/** Runs a function while it holds one of the places for queries of the browser. */
async function inPlace(run) {
  const [page] = performance.getEntriesByType("navigation");
  if (!navigator.locks || page?.nextHopProtocol === "h2") return run();
  for (let number = 0; number < MOST_QUERIES * ATTEMPTS; number++) {
    const name = `millstream.query.${number % MOST_QUERIES}`;
    const hasRun = await navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
      if (lock) await run();
      return lock !== null;
    });
    if (hasRun) return undefined;
    if ((number + 1) % MOST_QUERIES === 0) await new Promise((resolve) => setTimeout(resolve, ATTEMPT_MS));
  }
  const message = `${MOST_QUERIES} queries are running in this browser`;
  throw new ApiError(0, { message, hint: "stop one of them, also in other tabs" });
}

/**
 * Runs a query until it ends, or until it is aborted.
 *
 * @param text one statement: SELECT or PRINT.
 * @param session { properties, variables }.
 * @param signal aborts it.
 * @param on { header(columns, id), rows([{ columns, tombstone }]), lines([text]), final(text) }
 */
export const runQuery = (text, session, signal, on) => inPlace(() => receive(text, session, signal, on));

async function receive(text, session, signal, on) {
  signal.throwIfAborted();
  const body = { sql: text, properties: session.properties, sessionVariables: session.variables };
  const isPrint = /^\s*PRINT\b/i.test(text);
  const response = await api.stream("POST", "/query-stream", {
    body,
    signal,
    headers: { accept: isPrint ? "*/*" : TYPE },
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const items = new Items();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    if (isPrint) {
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      if (lines.length) on.lines(lines);
      continue;
    }
    const rows = [];
    for (const item of items.add(value)) {
      if (item === null) continue; // an answer without a last item ends with null
      if (item.header) on.header(columnsOf(item.header.schema), item.header.queryId);
      else if (item.row) rows.push({ columns: item.row.columns, tombstone: item.row.tombstone ?? false });
      else if (item.finalMessage) on.final(item.finalMessage);
      else if (item.errorMessage) throw new ApiError(500, item.errorMessage);
    }
    if (rows.length) on.rows(rows);
  }
  if (rest) on.lines([rest]);
}
