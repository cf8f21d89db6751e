// Answers in pages: the first one, which may be read again and again, and those that its cursor leads to.

import { useEffect, useMemo, useState } from "../vendor/hooks.js";
import { api } from "./api.js";

const NONE = { first: null, items: [], cursor: null, error: null, isBusy: false };

/**
 * The pages of an answer: { first, items, cursor, error, isBusy, load, restart }. Further pages belong to the first page
 * that they continue: it stays, whatever the route answers meanwhile, until `restart` is called.
 *
 * @param route and parameters of the first page.
 * @param data its latest answer; null: there is none yet.
 * @param name the member of the answer that has the items.
 */
export function usePages(route, parameters, data, name) {
  const [more, setMore] = useState(NONE);
  useEffect(() => setMore(NONE), [JSON.stringify([route, parameters])]);
  const first = more.first ?? data;
  const cursor = more.first ? more.cursor : (first?.cursor ?? null);
  const items = useMemo(() => [...(first?.[name] ?? []), ...more.items], [first, more.items]);
  async function load() {
    const begun = { ...more, first, cursor, isBusy: true };
    setMore(begun);
    const set = (changes) => setMore((last) => (last === begun ? { ...begun, isBusy: false, ...changes } : last));
    try {
      const next = await api.get(route, { ...parameters, cursor });
      set({ items: [...more.items, ...next[name]], cursor: next.cursor, error: null });
    } catch (error) {
      set({ error });
    }
  }
  return { first, items, cursor, error: more.error, isBusy: more.isBusy, load, restart: () => setMore(NONE) };
}
