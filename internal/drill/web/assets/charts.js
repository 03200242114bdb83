// The curves of the last minutes, drawn with uPlot, and the small ones in the tiles.
/* global uPlot */

const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

export const clock = (seconds) => {
  const s = Math.max(0, Math.round(seconds));
  return Math.floor(s / 60) + ":" + String(s % 60).padStart(2, "0");
};

function figure(v) {
  if (v === null || v === undefined) return "–";
  return v >= 100 ? Math.round(v).toLocaleString("en-US") : v >= 10 ? v.toFixed(1) : String(+v.toFixed(2));
}

// decades keeps the marks at powers of ten of a log scale; lines at all of them would drown the curves.
const decades = (u, marks) => marks.map((v) => (Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null));

// The columns of a point, as the server sends them (frame.go).
export const columns = { at: 0, sent: 1, processed: 2, dead: 3, lag: 4, retries: 5, p50: 6, p99: 7 };

const charts = {
  rates: [["sent", "sent"], ["processed", "processed"], ["dead", "dead"]],
  lag: [["lag", "lag"], ["retries", "retries"]],
  latency: [["p50", "p50"], ["p99", "p99"]],
};

export class Charts {
  constructor() {
    this.points = [];
    this.windows = [];
    this.drawn = {};
    for (const holder of document.querySelectorAll("[data-chart]")) this.add(holder, charts[holder.dataset.chart]);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
      Object.values(this.drawn).forEach((c) => this.draw(c)),
    );
    this.resized = new ResizeObserver((entries) => {
      for (const entry of entries) {
        const chart = this.drawn[entry.target.parentElement.dataset.chart];
        if (chart.plot && Math.abs(entry.contentRect.width - chart.plot.width) > 1)
          chart.plot.setSize({ width: entry.contentRect.width, height: 150 });
      }
    });
    for (const chart of Object.values(this.drawn)) this.resized.observe(chart.place);
  }

  add(holder, series) {
    const legend = document.createElement("div");
    legend.className = "legend";
    const place = document.createElement("div");
    place.className = "plot";
    holder.append(legend, place);
    const chart = { legend, place, series, log: holder.dataset.chart === "latency" };
    this.drawn[holder.dataset.chart] = chart;
    this.draw(chart);
  }

  draw(chart) {
    if (chart.plot) chart.plot.destroy();
    chart.legend.replaceChildren();
    chart.values = chart.series.map(([name, label]) => {
      const entry = document.createElement("span"),
        swatch = document.createElement("i"),
        value = document.createElement("b");
      swatch.style.background = colour(name);
      entry.append(swatch, label + " ", value);
      chart.legend.append(entry);
      return value;
    });
    const axis = {
      stroke: colour("axis"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
    };
    chart.plot = new uPlot(
      {
        width: chart.place.clientWidth || 320,
        height: 150,
        legend: { show: false },
        padding: [8, 8, 0, 0],
        cursor: { y: false, points: { size: 6 }, sync: { key: "drill" }, drag: { x: false, y: false } },
        scales: {
          x: { time: false },
          y: chart.log ? { distr: 3, log: 10 } : { range: (u, low, high) => [0, Math.max(1, high || 0) * 1.12] },
        },
        axes: [
          Object.assign({ size: 24, space: 54, values: (u, marks) => marks.map(clock) }, axis),
          Object.assign(
            {
              size: 44,
              space: 30,
              values: (u, marks) =>
                marks.map((v) => (v === null ? null : v >= 1e4 ? v / 1e3 + "k" : String(+v.toFixed(2)))),
            },
            axis,
            chart.log ? { filter: decades, grid: Object.assign({ filter: decades }, axis.grid) } : {},
          ),
        ],
        series: [{}].concat(
          chart.series.map(([name], i) => ({
            stroke: colour(name),
            width: 1.7,
            points: { show: false },
            fill: i === 0 ? colour(name) + "1c" : undefined,
            spanGaps: false,
          })),
        ),
        hooks: { drawClear: [(u) => this.shade(u)], setCursor: [() => this.read(chart)] },
      },
      this.data(chart),
      chart.place,
    );
    this.read(chart);
  }

  data(chart) {
    // Where nothing succeeded there is no latency: 0 would be a lie.
    const column = (name) =>
      this.points.map((p) => ((name === "p50" || name === "p99") && p[columns[name]] === 0 ? null : p[columns[name]]));
    return [this.points.map((p) => p[0])].concat(chart.series.map(([name]) => column(name)));
  }

  // read shows the values under the cursor, or the newest.
  read(chart) {
    if (!chart.plot) return;
    const at = chart.plot.cursor.idx ?? this.points.length - 1;
    chart.values.forEach((value, i) => (value.textContent = at < 0 ? "–" : figure(chart.plot.data[i + 1][at])));
  }

  // shade paints the windows in which something was broken, as far as this page may know of them.
  shade(u) {
    const ctx = u.ctx, box = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    for (const [from, to] of this.windows) {
      const x = u.valToPos(from, "x", true), end = to === null ? box.left + box.width : u.valToPos(to, "x", true);
      ctx.fillStyle = colour("shade");
      ctx.fillRect(x, box.top, Math.max(end - x, 2), box.height);
      ctx.fillStyle = colour("edge");
      ctx.fillRect(x, box.top, devicePixelRatio, box.height);
    }
    ctx.restore();
  }

  // show says in which windows something was broken.
  show(windows) {
    const form = JSON.stringify(windows);
    if (form === this.shaded) return;
    this.shaded = form;
    this.windows = windows;
    for (const chart of Object.values(this.drawn)) chart.plot.redraw(false);
  }

  // replace takes what the server kept of the past; push adds a point. A point older than the last is of a load that
  // began anew and is left out.
  replace(points) {
    this.points = points;
    this.refresh();
  }

  push(point) {
    if (this.points.length && point[0] <= this.points[this.points.length - 1][0]) return;
    this.points.push(point);
    if (this.points.length > 1200) this.points.splice(0, this.points.length - 1200);
    this.refresh();
  }

  refresh() {
    for (const chart of Object.values(this.drawn)) {
      chart.plot.setData(this.data(chart));
      this.read(chart);
    }
  }
}

const NS = "http://www.w3.org/2000/svg";

// Tile is a figure with its curve of the last minute.
export class Tile {
  constructor(list, label, name) {
    this.name = name;
    this.box = document.createElement("div");
    const dt = document.createElement("dt");
    dt.textContent = label;
    this.value = document.createElement("dd");
    this.number = document.createElement("span");
    this.note = document.createElement("small");
    this.value.append(this.number, " ", this.note);
    this.svg = document.createElementNS(NS, "svg");
    this.svg.setAttribute("viewBox", "0 0 120 26");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("aria-hidden", "true");
    this.path = document.createElementNS(NS, "path");
    this.path.style.stroke = "var(--" + name + ")";
    this.svg.append(this.path);
    this.box.append(dt, this.value, this.svg);
    list.append(this.box);
  }

  show(number, note, points, warn) {
    this.number.textContent = number;
    this.note.textContent = note;
    this.box.classList.toggle("warn", Boolean(warn));
    const last = points.slice(-120).map((p) => p[columns[this.name]]);
    const high = Math.max(1, ...last);
    this.path.setAttribute(
      "d",
      last
        .map(
          (v, i) =>
            (i ? "L" : "M") +
            ((120 * i) / Math.max(1, last.length - 1)).toFixed(1) +
            " " +
            (24 - (22 * v) / high).toFixed(1),
        )
        .join(""),
    );
  }
}
