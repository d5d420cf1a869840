// SPDX-License-Identifier: MIT
//
// Processes of this host and whom they talk to. A peer that is a process here is that process; any other is its address. Everything stands on
// an ellipse, in the order of process ids, so that nothing jumps when rates change.

import { element } from "./plots.js";

const BOX_WIDTH = 150, BOX_HEIGHT = 42;

// Which process here has that queue pair at that address?
function findPeer(processes, qp) {
  if (!qp.peer_address)
    return null;
  for (const process of processes)
    for (const other of process.qps)
      if (other.qpn === qp.peer_qpn && other.local_address === qp.peer_address && other.peer_qpn === qp.qpn)
        return process;
  return null;
}

export function connect(processes, rateOf) {
  const nodes = new Map(), edges = new Map();

  for (const process of processes) {
    for (const qp of process.qps) {
      if (!qp.peer_address && qp.state !== "RTS")
        continue;
      const from = `process ${process.pid}`;
      nodes.set(from, { title: process.program, detail: `pid ${process.pid}`, host: false, order: process.pid });
      if (!qp.peer_address)
        continue;
      const peer = findPeer(processes, qp), to = peer ? `process ${peer.pid}` : `host ${qp.peer_address}`;
      if (!peer)
        nodes.set(to, { title: qp.peer_address, detail: "another host, or gone", host: true, order: Infinity });
      const key = [from, to].sort().join(" - ");
      const edge = edges.get(key) || { from, to, qps: 0, rate: 0, failed: 0 };
      edge.qps += 1;
      edge.rate += rateOf(process.pid, qp.qpn);
      edge.failed += qp.state === "ERR" || qp.state === "SQE" ? 1 : 0;
      edges.set(key, edge);
    }
  }
  return { nodes, edges: [...edges.values()] };
}

function place(nodes, width, height) {
  const sorted = [...nodes].sort((a, b) => a[1].order - b[1].order || (a[0] < b[0] ? -1 : 1));
  sorted.forEach(([, node], index) => {
    const angle = Math.PI + 2 * Math.PI * index / sorted.length;
    node.x = width / 2 + (width / 2 - BOX_WIDTH / 2 - 20) * Math.cos(angle) * (sorted.length > 1 ? 0.8 : 0);
    node.y = height / 2 + (height / 2 - BOX_HEIGHT) * Math.sin(angle) * (sorted.length > 2 ? 1 : 0);
  });
}

function drawEdge(svg, nodes, edge, label) {
  const a = nodes.get(edge.from), b = nodes.get(edge.to);
  const width = Math.min(14, 1.5 + Math.log10(1 + edge.rate) * 1.6);
  const loop = edge.from === edge.to;
  const path = loop ? `M${a.x - 30} ${a.y - BOX_HEIGHT / 2}C${a.x - 40} ${a.y - 90} ${a.x + 40} ${a.y - 90} ${a.x + 30} ${a.y - BOX_HEIGHT / 2}` :
    `M${a.x} ${a.y}L${b.x} ${b.y}`;

  svg.append(element("path", { d: path, "stroke-width": width, "stroke-opacity": 0.55, class: edge.failed ? "failed" : "" }));
  svg.append(element("text", { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 - (loop ? 76 : 8) }, label));
}

export function drawGraph(svg, graph, show) {
  const { width, height } = svg.getBoundingClientRect();

  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  place(graph.nodes, width, height);
  for (const edge of graph.edges)
    drawEdge(svg, graph.nodes, edge,
      `${edge.qps} queue pair${edge.qps === 1 ? "" : "s"}, ${show(edge.rate)}/s${edge.failed ? `, ${edge.failed} failed` : ""}`);
  for (const node of graph.nodes.values()) {
    svg.append(element("rect", { x: node.x - BOX_WIDTH / 2, y: node.y - BOX_HEIGHT / 2, width: BOX_WIDTH, height: BOX_HEIGHT, rx: 8,
      class: node.host ? "host" : "" }));
    svg.append(element("text", { x: node.x, y: node.y - 2 }, node.title));
    svg.append(element("text", { x: node.x, y: node.y + 14, class: "muted" }, node.detail));
  }
}
