// Requests to the server. The session is a cookie that scripts cannot read; the browser sends it by itself.

import { parseExact } from "./exact.js";

const BASE = "/api/v1/";

/** An answer with an error status, or no answer (status 0). */
export class ApiError extends Error {
  constructor(status, { message, code = null, hint = null, problems = [] }, request = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.problems = problems;
    this.request = request;
  }

  /** Whether the route or the object does not exist. */
  get isMissing() {
    return this.status === 404;
  }
}

/** Joins parts of a path. Each is escaped, so that a name never adds a part. */
export function path(...parts) {
  return parts.map((part) => encodeURIComponent(part)).join("/");
}

function address(route, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
  }
  const text = query.toString();
  return (route.startsWith("/") ? route : BASE + route) + (text ? `?${text}` : "");
}

async function failure(response) {
  let content = {};
  try {
    content = await response.json();
  } catch {
    // The answer does not come from the server's own routes.
  }
  // ksqlDB's routes have the message in the object itself.
  const error = content.error ?? { message: content.message ?? `the server answered with status ${response.status}` };
  return new ApiError(response.status, error, content.request_id);
}

async function send(method, route, { parameters, body, signal, headers } = {}) {
  const options = { method, signal, headers: { accept: "application/json", ...headers }, credentials: "same-origin" };
  if (method !== "GET") options.headers["x-millstream"] = "console"; // see access/authorization.py
  if (body !== undefined) {
    options.headers["content-type"] ??= "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(address(route, parameters), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "the server does not answer", hint: "is it still running?" });
  }
  if (!response.ok) {
    const error = await failure(response);
    if (error.status === 401 && route !== "session") window.dispatchEvent(new Event("millstream:signed-out"));
    throw error;
  }
  return response;
}

async function json(method, route, options) {
  const response = await send(method, route, options);
  return response.status === 204 ? null : parseExact(await response.text());
}

/** A path that does not start with a slash is below /api/v1/. Options: parameters, body, signal, headers. */
export const api = {
  get: (route, parameters, options) => json("GET", route, { parameters, ...options }),
  post: (route, body, options) => json("POST", route, { body: body ?? {}, ...options }),
  delete: (route, options) => json("DELETE", route, options),
  /** Returns the response itself, for answers that arrive in parts. */
  stream: (method, route, options) => send(method, route, options),
};
