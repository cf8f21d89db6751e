// Server-sent events for all tabs of a browser by one stream.
//
// With HTTP/1.1 a browser opens six connections to a host, for all of its tabs. So the tabs elect a leader: the one that
// holds a Web Lock. The leader keeps one EventSource open for the channels that any tab wants, and passes each event on
// by a BroadcastChannel. If its tab is closed, the next in the queue of the lock leads, and continues after the last
// event. Each tab holds a lock of its own, by which the leader sees which tabs still exist.

import { parseExact } from "./exact.js";

const LEADER = "millstream.events.leader";
const TAB = "millstream.events.tab.";
const ROUTE = "/api/v1/events";
const SETTLE_MS = 40; // a new page subscribes to several channels at once
const PRUNE_MS = 5_000;
const MOST_CHANNELS = 50; // of a stream
const LONGEST_ID = 4_000; // in an address
const RETRY_MS = [2_000, 5_000, 15_000, 30_000];

const tab = Math.random().toString(36).slice(2);
const bus = typeof BroadcastChannel === "function" ? new BroadcastChannel("millstream.events") : null;
const subscribers = new Map(); // channel -> set of functions
const watchers = new Set(); // of the state
const wanted = new Map(); // of the leader: tab -> list of channels
let state = "idle"; // "live": events arrive; "polling": pages must ask; "idle": no tab wants any; "connecting"
let lastId = null;
let leader = null;
let isStarted = false;

/** A channel without its position: "topic:a@start" -> "topic:a". Events may name either. */
const place = (channel) => channel.replace(/@(start|end|\d+)$/, "");

/** The parts of an id that are about these channels: a channel that comes back later begins anew. */
function keptId(id, channels) {
  const places = new Set(channels.map(place));
  const kept = (id ?? "").split(";").filter((entry) => {
    try {
      return places.has(place(decodeURIComponent(entry.split("=")[0])));
    } catch {
      return false;
    }
  });
  const text = kept.join(";");
  return text.length > LONGEST_ID ? "" : text;
}

function deliver(kind, data, id) {
  if (id) lastId = id;
  if (kind === "missed") {
    for (const receivers of subscribers.values()) for (const each of receivers) each(data, "missed");
    return;
  }
  const channel = data?.channel;
  if (typeof channel !== "string") return;
  for (const [name, receivers] of subscribers) {
    if (name === channel || place(name) === channel) for (const each of [...receivers]) each(data, kind);
  }
}

/** Delivers an event whose data is still text. */
function receive(kind, text, id) {
  let data;
  try {
    data = parseExact(text);
  } catch {
    return;
  }
  deliver(kind, data, id);
}

function setState(next) {
  if (next === state) return;
  state = next;
  for (const each of watchers) each(state);
}

function tell(message) {
  bus?.postMessage({ ...message, tab });
}

function want() {
  const channels = [...subscribers.keys()];
  if (channels.length && state === "idle") setState("connecting");
  tell({ type: "want", channels });
  leader?.want(tab, channels);
}

/** Holds the stream of the browser. */
class Leader {
  constructor() {
    this.source = null;
    this.channels = "";
    this.failures = 0;
    this.timer = null;
    this.prune = setInterval(() => this.removeClosedTabs(), PRUNE_MS);
    wanted.set(tab, [...subscribers.keys()]);
    tell({ type: "leads" }); // the others answer with what they want
    this.settle();
  }

  want(from, channels) {
    wanted.set(from, channels);
    this.settle();
  }

  leave(from) {
    if (wanted.delete(from)) this.settle();
  }

  async removeClosedTabs() {
    const { held } = await navigator.locks.query();
    const open = new Set(held.map((lock) => lock.name));
    for (const each of [...wanted.keys()]) if (each !== tab && !open.has(TAB + each)) this.leave(each);
  }

  settle(delay = SETTLE_MS) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), delay);
  }

  connect() {
    const channels = [...new Set([...wanted.values()].flat())].sort();
    const text = channels.join("\n");
    if (text === this.channels && this.source && this.source.readyState !== EventSource.CLOSED) return;
    this.source?.close();
    this.source = null;
    this.channels = text;
    lastId = keptId(lastId, channels);
    if (!channels.length) {
      this.share("idle");
      return;
    }
    const query = new URLSearchParams(channels.slice(0, MOST_CHANNELS).map((channel) => ["channel", channel]));
    if (lastId) query.set("last_event_id", lastId);
    const source = new EventSource(`${ROUTE}?${query}`);
    this.source = source;
    source.onopen = () => {
      this.failures = 0;
      this.share(channels.length > MOST_CHANNELS ? "polling" : "live");
    };
    source.onerror = () => {
      if (this.source !== source) return;
      this.share("polling");
      // While it is CONNECTING, the browser tries again by itself. A refusal closes it.
      if (source.readyState === EventSource.CLOSED) {
        this.source = null;
        if (this.failures) lastId = null; // the server may have forgotten the position
        this.settle(RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)]);
      }
    };
    const kinds = new Set(["message", "missed", ...channels.map((channel) => channel.split(":")[0])]);
    for (const kind of kinds) source.addEventListener(kind, (event) => this.received(kind, event));
  }

  received(kind, event) {
    tell({ type: "event", kind, text: event.data, id: event.lastEventId }); // as text: a copy of an object would not be exact
    receive(kind, event.data, event.lastEventId);
  }

  share(next) {
    tell({ type: "state", state: next });
    setState(next);
  }
}

function heard({ data }) {
  if (data.type === "event") receive(data.kind, data.text, data.id);
  else if (data.type === "state") setState(data.state);
  else if (data.type === "leads") want();
  else if (data.type === "want") {
    leader?.want(data.tab, data.channels);
    if (leader) tell({ type: "state", state });
  } else if (data.type === "left") leader?.leave(data.tab);
}

function start() {
  if (isStarted) return;
  isStarted = true;
  if (!bus || !navigator.locks) {
    leader = new Leader(); // this tab alone: an old browser, or a page without TLS on another machine
    return;
  }
  bus.onmessage = heard;
  window.addEventListener("pagehide", () => tell({ type: "left" }));
  window.addEventListener("pageshow", (event) => event.persisted && want());
  const forever = new Promise(() => {});
  navigator.locks.request(TAB + tab, () => forever);
  navigator.locks.request(LEADER, () => {
    leader = new Leader();
    return forever;
  });
}

/**
 * Calls a function for each event of a channel, until the returned function is called.
 *
 * @param channel such as "applications", "store:shop/sales" or "topic:orders@end".
 * @param receive called with the data of an event and its kind. The kind "missed" is for every channel.
 */
export function subscribe(channel, receive) {
  start();
  const receivers = subscribers.get(channel) ?? new Set();
  subscribers.set(channel, receivers);
  receivers.add(receive);
  if (receivers.size === 1) want();
  return () => {
    receivers.delete(receive);
    if (!receivers.size && subscribers.get(channel) === receivers) {
      subscribers.delete(channel);
      want();
    }
  };
}

/** Calls a function with the state of the stream, now and at each change: "connecting", "live", "polling" or "idle". */
export function watchState(changed) {
  watchers.add(changed);
  changed(state);
  return () => watchers.delete(changed);
}

/** Whether this tab holds the stream of the browser. */
export const leads = () => leader !== null;
