// The changes of a store as they come.

import { useStreamState } from "../lib/data.js";
import { useFollowing } from "../lib/following.js";
import { clock, count, counted } from "../lib/format.js";
import { go, href } from "../lib/router.js";
import { eventRow, keyText } from "../lib/store-keys.js";
import { Empty, Panel, Table, Tag, Value, html, useState } from "../lib/ui.js";
import { Times, timesTitle } from "./store-rows.js";

const arrivals = new WeakMap(); // when the page got a change

export function arrivalOf(row) {
  if (!arrivals.has(row)) arrivals.set(row, Date.now());
  return arrivals.get(row);
}

export function StoreChanges({ application, store, query }) {
  const [isHeld, setHeld] = useState(false);
  const stream = useStreamState();
  const {
    rows,
    count: number,
    missed,
  } = useFollowing(`store:${application}/${store.name}`, {
    identity: (row) => `${row.partition}/${row.offset}`,
    shape: (row) => eventRow(store, row),
    isHeld,
  });
  const watch = (row) => href(["stores", application, store.name], { ...query, watch: keyText(store, row) });
  const columns = [
    { title: "Came", kind: "narrow", cell: (row) => clock(arrivalOf(row), { millis: true }) },
    {
      title: "Key",
      kind: "code",
      cell: (row) => html`<${Value} value=${row.key ?? row.key_base64 ?? row.key_error} most=${120} />`,
    },
    { title: timesTitle(store), kind: "narrow times optional", cell: (row) => html`<${Times} row=${row} />` },
    {
      title: "Value",
      kind: "wide",
      cell: (row) =>
        row.value === null
          ? html`<${Tag} tone="warn">deleted<//>`
          : html`<${Value} value=${row.value ?? row.value_base64} />`,
    },
  ];
  if (stream === "polling")
    return html`<${Panel}><${Empty}>The server sends no events at the moment. The page Rows shows the rows as of the last commit.<//><//>`;
  return html`<${Panel}>
    <p class="above"><${Tag} tone=${isHeld ? "warn" : stream === "live" ? "good" : "busy"}>${isHeld ? "held" : stream === "live" ? "live" : "connecting"}<//>
      <span>${counted(number, "change")}${missed > 0 ? `, ${count(missed)} more were left out: the store is faster than this page` : ""}</span>
      <button class="plain" aria-pressed=${isHeld} onClick=${() => setHeld(!isHeld)}>${isHeld ? "Continue" : "Hold"}</button></p>
    ${
      rows.length
        ? html`<${Table} label="Changes" columns=${columns} rows=${rows} keyOf=${(row) => `${row.partition}/${row.offset}`} onOpen=${(row) => keyText(store, row) !== null && go(watch(row))} />`
        : html`<${Empty}>No row has changed yet.<//>`
    }
  <//>`;
}
