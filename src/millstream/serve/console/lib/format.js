// Numbers, times and values as text.

const integers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const shown = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

/** 12345 -> "12,345"; what is not known is "–". */
export const count = (value) => (shown(value) ? integers.format(value) : "–");

/** counted(1, "row") -> "1 row", counted(2000, "row") -> "2,000 rows" */
export const counted = (value, noun) => `${count(value)} ${noun}${Number(value) === 1 ? "" : "s"}`;

/** 12345 -> "12.3k" */
export function compact(value) {
  if (!shown(value)) return "–";
  const size = Math.abs(value);
  for (const [limit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) {
      const scaled = value / (letter === "k" ? 1e3 : limit);
      return `${scaled.toFixed(Math.abs(scaled) < 100 ? 1 : 0)}${letter}`;
    }
  }
  return size >= 100 || Number.isInteger(value) ? integers.format(value) : value.toFixed(size < 1 ? 2 : 1);
}

/** Records per second: 12.34 -> "12.3/s" */
export const rate = (value) => (shown(value) ? `${value > 0 && value < 0.005 ? "<0.01" : compact(value)}/s` : "–");

/** 1536 -> "1.5 kB", in steps of 1000. */
export function bytes(value) {
  if (!shown(value)) return "–";
  let size = Number(value);
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (Math.abs(size) < 1000 || unit === "TB") return `${size.toFixed(unit === "B" || Math.abs(size) >= 100 ? 0 : 1)} ${unit}`;
    size /= 1000;
  }
  return "–";
}

/** Milliseconds as a length of time: "420 ms", "3.2 s", "5 min", "2 h 5 min", "3 d" */
export function duration(ms) {
  if (!shown(ms)) return "–";
  const size = Math.abs(ms);
  if (size < 1) return size === 0 ? "0 ms" : `${ms.toFixed(2)} ms`;
  if (size < 1000) return `${Math.round(ms)} ms`;
  if (size < 60_000) return `${(ms / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  if (size < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (size < 86_400_000) {
    const minutes = Math.floor((ms % 3_600_000) / 60_000);
    return `${Math.floor(ms / 3_600_000)} h${minutes ? ` ${minutes} min` : ""}`;
  }
  return `${Math.floor(ms / 86_400_000)} d`;
}

const pad = (value, width = 2) => String(value).padStart(width, "0");
const isTime = (ms) => shown(ms) && Math.abs(ms) <= 8.64e15;

/** The time of day, with milliseconds if asked for. */
export function clock(ms, { millis = false } = {}) {
  if (!isTime(ms)) return shown(ms) ? String(ms) : "–";
  const date = new Date(Number(ms));
  const text = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return millis ? `${text}.${pad(date.getMilliseconds(), 3)}` : text;
}

/** Date and time of day in the browser's time zone. */
export function dateTime(ms, options) {
  if (!isTime(ms)) return shown(ms) ? String(ms) : "–";
  const date = new Date(Number(ms));
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(ms, options)}`;
}

/** A time as the value of a field for local times; what is none is empty. */
export function fieldOf(ms) {
  const text = ms === undefined || ms === "" ? "" : dateTime(Number(ms)).replace(" ", "T");
  return /^\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d$/.test(text) ? text : "";
}

/** The milliseconds of such a field; empty if there is no time in it. */
export function msOfField(text) {
  const ms = new Date(text).getTime();
  return text && Number.isFinite(ms) ? String(Math.max(0, ms)) : "";
}

/** "12 s ago" */
export function ago(ms, now = Date.now()) {
  if (!isTime(ms)) return "–";
  const age = now - ms;
  return age < 1000 ? "now" : `${duration(age)} ago`;
}

// Characters that control terminals, and those that change the direction of the text around them.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A value on one line: a string as it is, everything else as JSON. */
export function inline(value, most = 300) {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const line = text.replace(CONTROLS, "␣");
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** A value on several lines. Characters that are not to be seen are escaped, as in JSON. */
export function pretty(value, most = 100_000) {
  const raw = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  const text = raw.replace(CONTROLS, (character) =>
    "\n\t".includes(character) ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return text.length > most ? `${text.slice(0, most)}\n… (${count(text.length - most)} more characters)` : text;
}
