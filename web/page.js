// SPDX-License-Identifier: MIT
//
// Asks once a second and draws what comes. All text goes into the page as text, never as markup: names of programs and interfaces are chosen
// by others.

import { Plot } from "./plots.js";
import { connect, drawGraph } from "./graph.js";

const INTERVAL = 1000, NEWS = 300;
const token = new URLSearchParams(location.search).get("token") || sessionStorage.getItem("token") || "";
const at = id => document.getElementById(id);

sessionStorage.setItem("token", token);

function short(value) {
  if (value < 10000)
    return value.toFixed(value > 0 && value < 10 ? 1 : 0);
  return value < 1e6 ? `${(value / 1e3).toFixed(1)}k` : `${(value / 1e6).toFixed(2)}M`;
}

const bytes = value => value < 1e9 ? `${short(value)}B` : `${(value / 1e9).toFixed(2)}GB`;
const gigabits = value => `${(value / 1e9).toPrecision(3)} Gb/s`;
const microseconds = value => `${value < 100 ? value.toFixed(1) : value.toFixed(0)} µs`;
const hexadecimal = number => "0x" + number.toString(16).padStart(6, "0");

async function ask(path) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
  if (!answer.ok)
    throw new Error((await answer.text()).trim());
  return answer;
}

// ---- the parts ----

function showHost(state) {
  const daemon = state.daemon ? `verbenad ${state.daemon.pid}` : "no verbenad runs";
  at("host").textContent = `${state.host} · ${state.version} · ${daemon}`;
}

function showDevices(devices) {
  at("devices").replaceChildren(...devices.map(device => {
    const card = document.createElement("div"), name = document.createElement("b"), status = document.createElement("span");
    card.className = "card";
    name.textContent = device.name;
    status.textContent = device.state;
    status.className = device.state === "active" ? "good" : "bad";
    card.append(name, status, ` · MTU ${device.active_mtu}`);
    for (const gid of device.gids) {
      const line = document.createElement("div");
      line.className = "muted";
      line.textContent = gid.index === undefined ? gid.address : `gid ${gid.index}: ${gid.address}`;
      card.append(line);
    }
    return card;
  }));
}

let order = { key: "out", down: true };

function rowsOf(state) {
  const rates = new Map(state.rates.qps.map(qp => [`${qp.pid} ${qp.qpn}`, qp]));
  return state.processes.flatMap(process => process.qps.map(qp => {
    const rate = rates.get(`${process.pid} ${qp.qpn}`) || { out_per_s: 0, in_per_s: 0 };
    return {
      pid: process.pid, program: process.program, qpn: qp.qpn, type: qp.type, state: qp.state, way: qp.way, device: qp.device,
      peer: qp.peer_address ? `${qp.peer_address} ${hexadecimal(qp.peer_qpn)}` : "", out: rate.out_per_s, in: rate.in_per_s,
      work: rate.work_bytes_per_s || 0, received: rate.received_bytes_per_s || 0,
      sends: qp.send_posted, sendDepth: qp.send_depth, receives: qp.receive_posted, receiveDepth: qp.receive_depth, srq: qp.srq,
      trip: qp.round_trip_ns / 1000, control: qp.control, allowed: qp.rate_bits, fault: qp.fault || "", failed: qp.state === "ERR" || qp.state === "SQE",
    };
  }));
}

function compare(a, b) {
  const x = a[order.key], y = b[order.key];
  const result = x < y ? -1 : x > y ? 1 : a.pid - b.pid || a.qpn - b.qpn;
  return order.down ? -result : result;
}

function cell(text, number) {
  const made = document.createElement("td");
  made.textContent = text;
  if (number)
    made.className = "number";
  return made;
}

function makeRow(row) {
  const made = document.createElement("tr");
  made.dataset.pid = row.pid;
  made.dataset.qpn = row.qpn;
  made.tabIndex = 0;
  made.title = "Draw its ladder";
  made.className = row.failed ? "failed" : "";
  made.append(cell(row.program), cell(row.pid, true), cell(hexadecimal(row.qpn)), cell(row.type), cell(row.state), cell(row.way), cell(row.device),
    cell(row.peer), cell(short(row.out), true), cell(short(row.in), true),
    cell(bytes(row.work), true), cell(bytes(row.received), true), cell(`${row.sends}/${row.sendDepth}`, true),
    cell(row.srq ? `SRQ ${row.srq}` : `${row.receives}/${row.receiveDepth}`, true), cell(row.trip ? microseconds(row.trip) : "", true),
    cell(row.fault));
  return made;
}

function showQueuePairs(rows) {
  const body = at("qps").tBodies[0], active = document.activeElement;
  const kept = active && active.dataset && active.dataset.qpn ? [active.dataset.pid, active.dataset.qpn] : null;
  at("count").textContent = rows.length;
  body.replaceChildren(...[...rows].sort(compare).map(makeRow));
  if (kept)
    body.querySelector(`tr[data-pid="${kept[0]}"][data-qpn="${kept[1]}"]`)?.focus();
}

function showGraph(state, rows) {
  const rates = new Map(rows.map(row => [`${row.pid} ${row.qpn}`, row.out]));
  const graph = connect(state.processes, (pid, qpn) => rates.get(`${pid} ${qpn}`) || 0);
  const empty = graph.nodes.size === 0;
  at("graph").toggleAttribute("hidden", empty);
  at("graph-empty").hidden = !empty;
  at("graph").classList.toggle("many", graph.nodes.size > 2);
  if (!empty)
    drawGraph(at("graph"), graph, short);
}

const ratePlot = new Plot(at("plot-rate"), at("legend-rate"), short);
const bytePlot = new Plot(at("plot-bytes"), at("legend-bytes"), bytes);
const controlPlot = new Plot(at("plot-control"), at("legend-control"), gigabits);
const tripPlot = new Plot(at("plot-trip"), at("legend-trip"), microseconds);

function showPlots(state, rows) {
  ratePlot.add(new Map(state.rates.processes.map(row => [`${row.program} ${row.pid}`, row.out_per_s])));
  bytePlot.add(new Map(state.rates.processes.map(row => [`${row.program} ${row.pid}`, row.work_bytes_per_s + row.received_bytes_per_s])));
  controlPlot.add(new Map(rows.filter(row => row.allowed !== null).map(row => [`${row.control} ${row.program} ${hexadecimal(row.qpn)}`, row.allowed])));
  tripPlot.add(new Map(rows.filter(row => row.trip > 0).map(row => [`${row.program} ${hexadecimal(row.qpn)}`, row.trip])));
}

// ---- the fabric ----

let fabric = "";

// Drawn anew only when something of it has changed. As a picture: nothing in it runs.
async function showFabric(list) {
  const told = JSON.stringify(list);
  at("fabric-section").hidden = !list;
  if (!list || told === fabric)
    return;
  const active = list.links.filter(link => link.state === "ACTIVE").length;
  at("fabric-count").textContent = `${list.nodes.length} nodes, ${list.links.length} cables, ${active} active`;
  at("fabric").src = "data:image/svg+xml," + encodeURIComponent(await (await ask("/api/fabric")).text());
  fabric = told;
}

// ---- failures ----

const faults = new Map();
let explained = 0;

function addNews(time, text, bad) {
  const item = document.createElement("li"), stamp = document.createElement("time"), list = at("news");
  stamp.textContent = new Date(time * 1000).toLocaleTimeString();
  item.className = bad ? "bad" : "";
  item.append(stamp, text);
  list.prepend(item);
  while (list.children.length > NEWS)
    list.lastChild.remove();
  at("news-empty").hidden = true;
}

function showNews(state, rows) {
  for (const row of rows) {
    const key = `${row.pid} ${row.qpn}`;
    if (row.fault && faults.get(key) !== row.fault)
      addNews(state.time, `${row.program} ${row.pid}, queue pair ${hexadecimal(row.qpn)}: ${row.fault}`, true);
    faults.set(key, row.fault);
  }
  for (const explanation of state.records.explanations)
    if (explanation.number > explained) {
      explained = explanation.number;
      addNews(explanation.time, explanation.text, false);
    }
}

// ---- ladders ----

let drawn = null, address = null;

async function drawLadder() {
  const picture = at("ladder-picture"), why = at("ladder-why");
  at("ladder-title").textContent = `Queue pair ${hexadecimal(drawn.qpn)} of process ${drawn.pid}`;
  if (address)
    URL.revokeObjectURL(address);
  address = null;
  try {
    address = URL.createObjectURL(await (await ask(`/api/ladder?pid=${drawn.pid}&qpn=${drawn.qpn}`)).blob());
    picture.src = address;
    why.textContent = "";
  } catch (error) {
    why.textContent = error.message;
  }
  picture.hidden = !address;
}

function openLadder(row) {
  drawn = { pid: Number(row.dataset.pid), qpn: Number(row.dataset.qpn) };
  at("ladder").showModal();
  drawLadder();
}

at("qps").tBodies[0].addEventListener("click", event => openLadder(event.target.closest("tr")));
at("qps").tBodies[0].addEventListener("keydown", event => {
  if (event.key === "Enter")
    openLadder(event.target.closest("tr"));
});
at("ladder-again").addEventListener("click", drawLadder);
at("qps").tHead.addEventListener("click", event => {
  const key = event.target.dataset.key;
  if (key)
    order = { key, down: order.key === key ? !order.down : ["out", "in", "work", "received", "sends", "receives", "trip"].includes(key) };
});

// ---- again and again ----

async function look() {
  const live = at("live");
  try {
    const state = await (await ask("/api/state")).json();
    const rows = rowsOf(state);
    showHost(state);
    showDevices(state.devices);
    showQueuePairs(rows);
    showGraph(state, rows);
    showPlots(state, rows);
    await showFabric(state.fabric);
    showNews(state, rows);
    live.textContent = "live";
    live.className = "pill";
  } catch (error) {
    live.textContent = error instanceof TypeError ? "verbena web has ended" : error.message;
    live.className = "pill bad";
  }
  setTimeout(look, INTERVAL);
}

look();
