// Data of pages: an answer of a route, kept up to date by events or by asking again.

import { useCallback, useEffect, useRef, useState } from "../vendor/hooks.js";
import { api } from "./api.js";
import { subscribe, watchState } from "./events.js";

const WHILE_LIVE_MS = 15_000; // events can be lost, for example while a computer sleeps

/** The state of the stream of events. */
export function useStreamState() {
  const [state, setState] = useState("connecting");
  useEffect(() => watchState(setState), []);
  return state;
}

/** Calls a function for each event of a channel; null: none. */
export function useChannel(channel, receive) {
  const latest = useRef(receive);
  latest.current = receive;
  useEffect(() => (channel ? subscribe(channel, (data, kind) => latest.current(data, kind)) : undefined), [channel]);
}

/**
 * The answer of a route: { data, error, isLoading, reload, set }. The last answer stays while later requests fail.
 *
 * @param route below /api/v1/; null: none.
 * @param parameters of the query.
 * @param every milliseconds between requests; 0: once. With a channel that delivers events, it asks less often.
 * @param channel whose events change the answer, by `merge(answer, event data, kind)`. Without `merge`, an event asks
 *   again.
 */
export function useData(route, { parameters, every = 0, channel = null, merge = null } = {}) {
  const [answer, setAnswer] = useState({ route: null, data: null, error: null });
  const [version, setVersion] = useState(0);
  const stream = useStreamState();
  const question = route === null ? null : JSON.stringify([route, parameters]);
  const pause = channel && stream === "live" ? Math.max(every, WHILE_LIVE_MS) : every;
  const reload = useCallback(() => setVersion((number) => number + 1), []);

  useEffect(() => {
    if (question === null) return undefined;
    const abort = new AbortController();
    let timer = null;
    async function ask() {
      let next = pause;
      try {
        const data = await api.get(route, parameters, { signal: abort.signal });
        setAnswer({ route: question, data, error: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        if (error.isMissing) next = Math.max(pause, WHILE_LIVE_MS);
        setAnswer((last) => ({ route: question, data: last.route === question ? last.data : null, error }));
      }
      if (pause && !abort.signal.aborted) timer = setTimeout(whenVisible, next);
    }
    function whenVisible() {
      if (!document.hidden) ask();
      else document.addEventListener("visibilitychange", whenVisible, { once: true });
    }
    ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", whenVisible);
    };
  }, [question, pause, version]);

  useChannel(question === null ? null : channel, (event, kind) => {
    if (kind === "missed" || !merge) {
      reload();
      return;
    }
    setAnswer((last) =>
      last.route === question && last.data !== null
        ? { ...last, data: merge(last.data, event, kind) ?? last.data }
        : last,
    );
  });

  const isCurrent = answer.route === question;
  return {
    data: isCurrent ? answer.data : null,
    error: isCurrent ? answer.error : null,
    isLoading: !isCurrent,
    reload,
    set: (data) => setAnswer({ route: question, data, error: null }),
  };
}

/** The current time, again every so many milliseconds: for ages. */
export function useNow(every = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
