// SPDX-License-Identifier: MIT
//
// A plot of the last two minutes: one line for each name, the scale from 0 to a round number above what is shown.

const COLOURS = ["#6b4fbb", "#1a8f8a", "#d07a1c", "#c0362c", "#2f6fd0", "#7a8b1f", "#b0418f", "#5b6472"];
const KEPT = 120, LINES = 8, LEFT = 62, BOTTOM = 18, TOP = 8;
const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes))
    made.setAttribute(key, value);
  if (text !== undefined)
    made.textContent = text;
  return made;
}

function roundUp(value) {
  if (!(value > 0))
    return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find(step => step * power >= value) * power;
}

export class Plot {
  constructor(svg, legend, show) {
    this.svg = svg;
    this.legend = legend;
    this.show = show;               // a number as text
    this.series = new Map();        // name -> values, the newest last
    this.length = 0;
  }

  // `values`: name -> number. A name that is missing has gone: its line ends.
  add(values) {
    this.length = Math.min(this.length + 1, KEPT);
    for (const [name, kept] of this.series) {
      kept.push(values.has(name) ? values.get(name) : null);
      if (kept.length > KEPT)
        kept.shift();
      if (kept.every(value => value === null))
        this.series.delete(name);
    }
    for (const [name, value] of values)
      if (!this.series.has(name))
        this.series.set(name, [...Array(this.length - 1).fill(null), value]);
    this.draw();
  }

  // The busiest names; colours stay with a name while it is shown.
  chosen() {
    const sum = values => values.reduce((total, value) => total + (value || 0), 0);
    return [...this.series].sort((a, b) => sum(b[1]) - sum(a[1])).slice(0, LINES).sort((a, b) => a[0] < b[0] ? -1 : 1);
  }

  draw() {
    const { width, height } = this.svg.getBoundingClientRect();
    const lines = this.chosen();
    const top = roundUp(Math.max(0, ...lines.flatMap(line => line[1])));
    const x = index => LEFT + (width - LEFT - 6) * index / (KEPT - 1);
    const y = value => TOP + (height - TOP - BOTTOM) * (1 - value / top);

    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const part of [0, 0.5, 1]) {
      this.svg.append(element("line", { class: "rule", x1: LEFT, x2: width - 6, y1: y(part * top), y2: y(part * top) }));
      this.svg.append(element("text", { x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }, this.show(part * top)));
    }
    this.svg.append(element("text", { x: LEFT, y: height - 3 }, "two minutes ago"));
    this.svg.append(element("text", { x: width - 6, y: height - 3, "text-anchor": "end" }, "now"));
    this.legend.replaceChildren();
    lines.forEach(([name, values], number) => this.drawLine(name, values, COLOURS[number], x, y));
  }

  drawLine(name, values, colour, x, y) {
    const first = KEPT - values.length;
    let path = "", pen = "M";

    values.forEach((value, index) => {
      if (value === null) {
        pen = "M";
        return;
      }
      path += `${pen}${x(first + index).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    this.svg.append(element("path", { d: path, stroke: colour }));
    const entry = document.createElement("span"), mark = document.createElement("i");
    mark.style.background = colour;
    const last = values[values.length - 1];
    entry.append(mark, `${name}${last === null ? "" : " " + this.show(last)}`);
    this.legend.append(entry);
  }
}
