// Keys of stores: as text of a query, as JSON of a channel, and as people read them.

import { parseExact } from "./exact.js";

const TEXT = new Set(["string", "bytes", "uuid"]);

/** Whether keys of a store are written as text; else they are JSON. */
export const hasTextKeys = (store) => TEXT.has(String(store.key?.serde ?? "").toLowerCase());

/** The key of a row as the route takes it; null if it has no such text. */
export function keyText(store, row) {
  if (row.key === undefined) return null;
  if (row.window && store.kind === "key-value") return JSON.stringify({ key: row.key, ...row.window });
  return hasTextKeys(store) && typeof row.key === "string" ? row.key : JSON.stringify(row.key);
}

/** The key of a text as JSON: a channel has it in this form. */
export const keyJson = (store, text) => (hasTextKeys(store) ? JSON.stringify(text) : text);

/** A row of an event. The server knows the serdes of SQL as text only, which has the same value in JSON. */
export function eventRow(store, row) {
  if (typeof row.value !== "string" || TEXT.has(String(store.value?.serde ?? "").toLowerCase())) return row;
  try {
    return { ...row, value: parseExact(row.value) };
  } catch {
    return row;
  }
}

/** What makes a row of a store the same row. */
export const rowIdentity = (row) =>
  JSON.stringify([row.key ?? row.key_base64, row.window?.start, row.window?.end, row.valid_from]);

/** The numbers of a value, by name: those that a chart can show. */
export function numbersOf(value) {
  if (typeof value === "number") return { value };
  if (value === null || typeof value !== "object" || Array.isArray(value)) return {};
  const entries = Object.entries(value).filter(([, each]) => typeof each === "number");
  return Object.assign(Object.create(null), Object.fromEntries(entries.slice(0, 6)));
}
