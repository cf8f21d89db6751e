// EXPLAIN: the topology of a query as a picture; with live figures if the query runs.

import { api, path } from "../lib/api.js";
import { useData } from "../lib/data.js";
import { useRates } from "../lib/figures.js";
import { href } from "../lib/router.js";
import { Empty, Facts, Loading, Problem, Table, html, useEffect, useState } from "../lib/ui.js";
import { TopologyGraph } from "./topology-graph.js";
import { VertexDetails } from "./vertex-details.js";

const EVERY_MS = 1_500;
const KINDS = { PUSH: "push query", PULL: "pull query", PERSISTENT: "persistent query" };

function Picture({ topology }) {
  const answer = useData(topology.application ? `applications/${path(topology.application)}` : null, {
    every: EVERY_MS,
  });
  const application = answer.data ?? { id: topology.application ?? "", metrics: {} };
  const rates = useRates(answer.data);
  const [chosen, setChosen] = useState(null);
  return html`<div class=${chosen ? "with-details" : null}>
    <${TopologyGraph} topology=${topology} rates=${rates} metrics=${application.metrics} chosen=${chosen} onChoose=${setChosen} />
    ${chosen && html`<${VertexDetails} chosen=${chosen} topology=${topology} application=${application} rates=${rates} history=${null} onClose=${() => setChosen(null)} />`}
  </div>`;
}

/**
 * The explanation of a statement.
 *
 * @param text the statement, or the id of a persistent query.
 * @param plan the plan in words, if it is known already.
 */
export function Explained({ text, plan = null }) {
  const [answer, setAnswer] = useState({ topology: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    api.post("sql/explain", { text }, { signal: abort.signal }).then(
      (topology) => setAnswer({ topology, error: null }),
      (error) => !abort.signal.aborted && setAnswer({ topology: null, error }),
    );
    return () => abort.abort();
  }, [text]);
  const { topology, error } = answer;
  const words = topology?.plan ?? plan;
  if (error && !plan) return html`<${Problem} error=${error} />`;
  if (!topology && !error) return html`<${Loading} />`;
  const hasPicture = topology?.sub_topologies?.length > 0;
  return html`${
    topology &&
    html`<div class="body"><${Facts} facts=${[
      ["kind", KINDS[topology.kind] ?? topology.kind],
      [
        "application",
        topology.application &&
          html`<a href=${href(["applications", topology.application])}>${topology.application}</a>`,
      ],
    ]} /></div>`
  }
    ${hasPicture && html`<${Picture} topology=${topology} />`}
    ${words && (!hasPicture || topology.plan) && html`<pre class="json plan">${words}</pre>`}
    ${
      topology?.columns?.length > 0 &&
      html`<${Table} label="Columns" rows=${topology.columns} keyOf=${(column) => column.name} columns=${[
        { title: "Column", kind: "code narrow", cell: (column) => column.name },
        { title: "Type", kind: "code", cell: (column) => column.type },
      ]} />`
    }
    ${!hasPicture && !words && html`<${Empty}>The query has no topology.<//>`}`;
}
