// All applications at a glance.

import { Head, html } from "../lib/ui.js";

export default function Overview() {
  return html`<${Head} title="Overview" />`;
}
