// The rows of a channel as they come: the newest first, a few hundred of them.

import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { useChannel, useStreamState } from "./data.js";

const SHOW_MS = 200; // a fast topic does not make the page draw for each record
const POLL_MS = 2_000;

/** How many events of a channel a `missed` event tells of. */
function missedOf(data, channel) {
  const places = data?.channels?.[channel];
  return Array.isArray(places) ? places.reduce((sum, each) => sum + (each.to - each.from), 0) : 0;
}

/** The last rows of a channel. */
class Rows {
  constructor(most) {
    this.most = most;
    this.rows = []; // the newest first
    this.pending = []; // the newest last
    this.seen = new Set();
    this.count = 0;
    this.missed = 0;
  }

  /** Adds rows, the newest last, that are not there yet. Returns whether there were any. */
  add(rows, identity, isNew) {
    const before = this.pending.length;
    for (const row of rows) {
      const id = identity(row);
      if (this.seen.has(id)) continue;
      this.seen.add(id);
      this.pending.push(row);
    }
    const added = this.pending.length - before;
    if (isNew) this.count += added;
    if (this.pending.length > this.most) this.pending = this.pending.slice(-this.most);
    return added > 0;
  }

  /** What the page shows. */
  take(identity) {
    if (this.pending.length) this.rows = [...this.pending.reverse(), ...this.rows].slice(0, this.most);
    this.pending = [];
    if (this.seen.size > this.most * 4) this.seen = new Set(this.rows.map(identity));
    return { rows: this.rows, count: this.count, missed: this.missed, isReady: true };
  }
}

/**
 * Follows a channel: { rows, count, missed, isReady }. `count` is the number of rows that came since it began.
 *
 * @param channel whose events are rows; null: it follows nothing.
 * @param poll returns the promise of the latest rows, the newest first: at the start, and again and again while there
 *   is no stream of events.
 * @param identity returns what makes a row the same row.
 * @param shape returns a row in the form in which it is kept.
 * @param isHeld whether the page keeps what it shows, while rows are collected.
 * @param most how many rows it keeps.
 */
export function useFollowing(channel, { poll, identity, shape = (row) => row, isHeld = false, most = 500 }) {
  const [shown, setShown] = useState({ rows: [], count: 0, missed: 0, isReady: false });
  const stream = useStreamState();
  const latest = useRef({});
  Object.assign(latest.current, { poll, identity, shape, isHeld });

  function show() {
    const each = latest.current;
    each.timer ??= setTimeout(() => {
      each.timer = null;
      if (each.isHeld) setShown((last) => ({ ...last, count: each.rows.count, missed: each.rows.missed }));
      else setShown(each.rows.take(each.identity));
    }, SHOW_MS);
  }

  async function ask(isNew) {
    const { rows } = latest.current;
    try {
      const answer = (await latest.current.poll?.()) ?? [];
      rows.add(answer.map(latest.current.shape).reverse(), latest.current.identity, isNew);
    } catch {
      // The next attempt may succeed; the page shows the errors of its own requests.
    }
    if (rows === latest.current.rows) show();
  }

  useEffect(() => {
    if (!channel) return undefined;
    latest.current.rows = new Rows(most);
    setShown({ rows: [], count: 0, missed: 0, isReady: false });
    ask(false);
    return () => {
      clearTimeout(latest.current.timer);
      latest.current.timer = null;
    };
  }, [channel]);

  useEffect(() => {
    if (!channel || stream === "live") return undefined;
    const timer = setInterval(() => ask(true), POLL_MS);
    return () => clearInterval(timer);
  }, [channel, stream]);

  useEffect(() => {
    if (channel && !isHeld && latest.current.rows) show();
  }, [isHeld]);

  useChannel(channel, (data, kind) => {
    const { rows } = latest.current;
    if (kind === "missed") rows.missed += missedOf(data, channel);
    else rows.add([latest.current.shape(data)], latest.current.identity, true);
    show();
  });

  return shown;
}
