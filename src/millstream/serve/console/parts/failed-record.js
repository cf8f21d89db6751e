// The record that an error names, as its topic has it.

import { path } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { dateTime } from "../lib/format.js";
import { href } from "../lib/router.js";
import { Json, html } from "../lib/ui.js";

const PLACE = /\(topic ([\w.-]+), partition (\d+), offset (\d+)/;

/** Reads the record at which the message of an error points. Nothing, if it points at none, or the record is gone. */
export function FailedRecord({ message }) {
  const [, topic, partition, offset] = PLACE.exec(message) ?? [];
  const answer = useData(topic ? `topics/${path(topic)}/records` : null, {
    parameters: { partition, offset, limit: 1 },
  });
  const record = answer.data?.records[0];
  if (!record || String(record.offset) !== offset) return null;
  return html`<details class="failed-record" open>
    <summary>The record: <a href=${href(["topics", topic])}>${topic}</a>, partition ${partition}, offset ${offset},
      <time> ${dateTime(record.timestamp, { millis: true })}</time></summary>
    <div class="columns">
      <div><h3>Key</h3><${Json} value=${record.key ?? record.key_base64} /></div>
      <div><h3>Value</h3><${Json} value=${record.value ?? record.value_base64} /></div>
    </div>
  </details>`;
}
