// Draws the charts of a timeline. Everything that comes from a run is set as text, never as markup.
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const data = JSON.parse(document.getElementById("data").textContent).timeline;
  const end = Math.max(data.end, data.time.length ? data.time[data.time.length - 1] : 0, 1e-3);
  const hint = "drag to zoom all, double-click for the whole run; or the arrow keys, + and −";
  const drawn = []; // the charts that are drawn
  const hasRight = (chart) => chart.curves.some((c) => c.right);
  // rightAxis is the room for the axis of one chart, which the others leave free.
  const rightAxis = data.charts.some(hasRight) ? 34 : 10;
  let range = null; // the seconds that are shown, null for all of them
  let hovered = null; // the plot that the mouse is over

  function colour(name) {
    return getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function element(tag, text, parent, className) {
    const e = document.createElement(tag);
    if (text) e.textContent = text;
    if (className) e.className = className;
    if (parent) parent.appendChild(e);
    return e;
  }

  function figure(v, unit) {
    if (v === null || v === undefined) return "–";
    const a = Math.abs(v);
    const text =
      a >= 100 || Number.isInteger(v)
        ? Math.round(v).toLocaleString("en-US")
        : a >= 10
          ? v.toFixed(1)
          : a === 0
            ? "0"
            : v.toFixed(2);
    return unit ? text + " " + unit : text;
  }

  // short prints the value of an axis mark: 20k, 1.5M.
  function short(v) {
    if (v === null) return "";
    if (v >= 1e6) return +(v / 1e6).toFixed(2) + "M";
    if (v >= 1e4) return +(v / 1e3).toFixed(1) + "k";
    return String(+v.toFixed(3));
  }

  function shown() {
    return range || [0, end];
  }

  // zoom shows these seconds on all charts of the time axis.
  function zoom(from, to) {
    const width = Math.min(Math.max(to - from, end / 500), end);
    from = Math.min(Math.max(from, 0), end - width);
    range = width >= end * 0.999 ? null : [from, from + width];
    for (const chart of drawn) chart.plot.setScale("x", { min: shown()[0], max: shown()[1] });
    announce();
    fillTable();
  }

  // scale zooms by a factor around the cursor, or around the middle of what is shown.
  function scale(factor) {
    const [from, to] = shown();
    const at = hovered && hovered.cursor.left >= 0 ? hovered.posToVal(hovered.cursor.left, "x") : (from + to) / 2;
    zoom(at - (at - from) * factor, at + (to - at) * factor);
  }

  function pan(share) {
    const [from, to] = shown();
    zoom(from + (to - from) * share, to + (to - from) * share);
  }

  function clip(u) {
    const ctx = u.ctx, box = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    return [ctx, box, devicePixelRatio];
  }

  // shadeWindows paints the windows behind the curves, paler until all was steady again, and where phases begin.
  function shadeWindows(u) {
    const [ctx, box, px] = clip(u);
    const at = (v) => u.valToPos(v, "x", true);
    for (const f of data.windows) {
      const from = at(f.from), width = Math.max(at(f.to) - from, 2 * px);
      ctx.fillStyle = colour("shade");
      ctx.fillRect(from, box.top, width, box.height);
      if (f.steady !== null && f.steady > f.to) {
        ctx.globalAlpha = 0.45;
        ctx.fillRect(from + width, box.top, at(f.steady) - from - width, box.height);
        ctx.globalAlpha = 1;
      }
      ctx.fillStyle = colour("edge");
      ctx.fillRect(from, box.top, px, box.height);
      ctx.fillRect(from + width - px, box.top, px, box.height);
    }
    ctx.fillStyle = colour("axis");
    for (const p of data.phases) {
      if (p.from <= u.scales.x.min) continue;
      const x = Math.round(at(p.from));
      for (let y = box.top; y < box.top + box.height; y += 6 * px) ctx.fillRect(x, y, 1, 2 * px);
    }
    ctx.restore();
  }

  // nameWindows writes the phases above the plot and the windows at its top, where there is room for the words.
  function nameWindows(u) {
    const ctx = u.ctx, box = u.bbox, px = devicePixelRatio;
    const clipped = (v) => Math.min(Math.max(u.valToPos(v, "x", true), box.left), box.left + box.width);
    ctx.save();
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "left";
    ctx.font = 11.5 * px + "px system-ui, sans-serif";
    ctx.fillStyle = colour("axis");
    for (const p of data.phases) {
      const from = clipped(p.from), room = clipped(p.to) - from - 8 * px;
      if (room > 0 && ctx.measureText(p.name).width <= room) ctx.fillText(p.name, from + 4 * px, box.top - 5 * px);
    }
    ctx.font = "600 " + 11.5 * px + "px system-ui, sans-serif";
    ctx.fillStyle = colour("retries");
    const ends = [];
    for (const f of data.windows) {
      if (f.to < u.scales.x.min || f.from > u.scales.x.max) continue;
      const from = clipped(f.from) + 4 * px;
      const full = f.label + " " + f.name;
      const words = ctx.measureText(full).width <= clipped(f.to) - from ? full : f.label;
      let row = 0;
      while (ends[row] > from) row++;
      ends[row] = from + ctx.measureText(words).width + 6 * px;
      ctx.fillText(words, from, box.top + (13 + 13 * row) * px);
    }
    ctx.restore();
    markMoments(u);
  }

  // markMoments draws, at the foot of the plot, when windows were planned (a bracket), when they were noticed (a
  // diamond), and the marks (triangles).
  function markMoments(u) {
    const [ctx, box, px] = clip(u);
    const at = (v) => u.valToPos(v, "x", true);
    const foot = box.top + box.height;
    ctx.strokeStyle = colour("edge");
    ctx.lineWidth = 1.5 * px;
    for (const f of data.windows) {
      if (f.planned && f.planned.length) {
        const from = at(f.planned[0]), to = Math.max(at(f.planned[1]), from + 2 * px);
        ctx.strokeRect(from, foot - 5 * px, to - from, 4 * px);
      }
      if (f.noticed !== null)
        shape(
          ctx,
          at(f.noticed),
          foot - 12 * px,
          colour("retries"),
          [
            [0, -5],
            [4, 0],
            [0, 5],
            [-4, 0],
          ],
          px,
        );
    }
    for (const m of data.marks) shape(ctx, at(m.at), foot - 1 * px, colour("fail"), [[0, -10], [5, 0], [-5, 0]], px);
    ctx.restore();
  }

  function shape(ctx, x, y, fill, corners, px) {
    ctx.fillStyle = fill;
    ctx.beginPath();
    for (const c of corners) ctx.lineTo(x + c[0] * px, y + c[1] * px);
    ctx.fill();
  }

  // heatColour mixes the colours of the theme's scale: a count of 1 is the first, the highest the last, by logarithm.
  function heatColours(heat) {
    const stops = [0, 1, 2, 3, 4].map((i) => {
      const hex = colour("heat-" + i).slice(1);
      return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
    });
    const most = Math.log1p(heat.most - 1) || 1;
    return function (count) {
      const place = (Math.log1p(count - 1) / most) * (stops.length - 1),
        low = Math.min(Math.floor(place), stops.length - 2);
      const mixed = stops[low].map((c, i) => Math.round(c + (stops[low + 1][i] - c) * (place - low)));
      return "rgb(" + mixed.join(",") + ")";
    };
  }

  // rowBounds are the bounds of the heat map's rows; a log scale has no place for zero.
  function rowBounds(heat) {
    return heat.bounds.map((b, i, all) => (b > 0 ? b : all[1] / 2));
  }

  function paintHeat(u, heat) {
    const [ctx] = clip(u);
    const pick = heatColours(heat), step = heat.step, cells = heat.cells;
    const ys = rowBounds(heat).map((b) => Math.round(u.valToPos(b, "y", true)));
    const [from, to] = [u.scales.x.min, u.scales.x.max];
    for (let i = 0; i < cells.length; i += 3) {
      const start = cells[i] * step;
      if (start + step < from || start > to) continue;
      const left = Math.floor(u.valToPos(start, "x", true)), right = Math.ceil(u.valToPos(start + step, "x", true));
      const low = ys[cells[i + 1]], high = ys[cells[i + 1] + 1];
      ctx.fillStyle = pick(cells[i + 2]);
      ctx.fillRect(left, high, Math.max(right - left, 1), Math.max(low - high, 1));
    }
    ctx.restore();
  }

  // readHeat says what is counted under the mouse.
  function readHeat(u, heat, out) {
    out.textContent = "";
    if (u !== hovered || u.cursor.left < 0) return;
    const bounds = rowBounds(heat), y = u.posToVal(u.cursor.top, "y");
    const column = Math.floor(u.posToVal(u.cursor.left, "x") / heat.step);
    const row = bounds.findIndex((b, i) => y >= b && y < bounds[i + 1]);
    if (row < 0) return;
    let count = 0;
    for (let i = 0; i < heat.cells.length; i += 3)
      if (heat.cells[i] === column && heat.cells[i + 1] === row) count = heat.cells[i + 2];
    out.textContent =
      count.toLocaleString("en-US") + " between " + figure(bounds[row]) + " and " + figure(bounds[row + 1], "ms");
  }

  function addHeatLegend(legend, chart) {
    const key = element("span", "", legend, "heat-key");
    element("span", "1", key);
    const bar = element("i", "", key);
    const pick = heatColours(chart.heat), most = chart.heat.most;
    const colours = [0, 0.25, 0.5, 0.75, 1].map((share) => pick(Math.pow(most, share)));
    bar.style.background = "linear-gradient(to right, " + colours.join(", ") + ")";
    element("span", most.toLocaleString("en-US") + " records", key);
    chart.cell = element("output", "", key);
  }

  const unitOf = (chart, c) => (c.right ? "" : chart.unit);

  function addLegend(holder, chart) {
    const legend = element("div", "", holder, "legend");
    if (chart.heat && chart.heat.most) addHeatLegend(legend, chart);
    const outputs = chart.curves.map((c, i) => {
      const button = element("button", "", legend);
      button.type = "button";
      button.setAttribute("aria-pressed", String(!c.hidden));
      element("i", "", button).style.background = colour(c.colour);
      element("span", c.label, button);
      button.addEventListener("click", () => {
        c.hidden = !c.hidden;
        button.setAttribute("aria-pressed", String(!c.hidden));
        chart.plot.setSeries(i + 1, { show: !c.hidden });
      });
      return element("output", "", button);
    });
    chart.read = function (u) {
      const at = u.cursor.idx,
        away = at === null || at === undefined;
      outputs.forEach(
        (out, i) => (out.textContent = away ? "" : figure(u.data[i + 1][at], unitOf(chart, chart.curves[i]))),
      );
      if (chart.cell) readHeat(u, chart.heat, chart.cell);
      readMoment(u);
    };
  }

  // decades keeps the marks at powers of ten of a log scale; lines at all of them would drown the curves.
  function decades(u, marks) {
    return marks.map((v) => (Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null));
  }

  // wholeDecades are the marks worth a label on a log scale: powers of ten, or all where there are fewer than two of
  // them.
  function wholeDecades(u, marks) {
    const whole = decades(u, marks);
    return whole.filter((v) => v !== null).length > 1 ? whole : marks;
  }

  // selected zooms to what was dragged over. The other charts are told of the mouse too: what they have selected is
  // only shown.
  function selected(u) {
    if (u.select.width <= 0) return;
    const from = u.posToVal(u.select.left, "x"), to = u.posToVal(u.select.left + u.select.width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (u === hovered) zoom(from, to);
  }

  function plotOptions(chart, width) {
    const axis = {
      stroke: colour("axis"), font: "12px system-ui, sans-serif", grid: { stroke: colour("grid"), width: 1 },
      ticks: { stroke: colour("grid"), width: 1, size: 5 },
    };
    const narrow = width < 520,
      named = chart === data.charts[0],
      right = hasRight(chart);
    const side = {
      size: narrow ? 44 : 56,
      space: 34,
      values: (u, marks) => (chart.log ? wholeDecades(u, marks) : marks).map((v) => (v === null ? null : short(v))),
    };
    const filter = chart.log ? { filter: decades } : {};
    const bounds = chart.heat ? rowBounds(chart.heat) : [];
    const upwards = { range: (u, low, high) => [0, Math.max(1, high || 0) * 1.12] };
    const scales = {
      x: { time: false, range: () => shown() },
      y: chart.log
        ? { distr: 3, log: 10, range: bounds.length ? () => [bounds[0], bounds[bounds.length - 1]] : undefined }
        : upwards,
    };
    const axes = [
      Object.assign({ size: 30, space: narrow ? 44 : 60 }, axis, {
        values: (u, marks) => marks.map((v) => short(v) + " s"),
      }),
      Object.assign({}, side, axis, {
        grid: Object.assign({}, axis.grid, filter),
        ticks: Object.assign({}, axis.ticks, filter),
      }),
    ];
    if (right) {
      scales.right = upwards;
      axes.push(Object.assign({}, side, axis, { scale: "right", side: 1, size: rightAxis, grid: { show: false } }));
    }
    return {
      width: width,
      height: chart.height,
      legend: { show: false },
      padding: [named ? 20 : 8, right ? 0 : rightAxis, 0, 0],
      cursor: {
        y: Boolean(chart.heat),
        sync: { key: "time", scales: ["x", null] },
        drag: { x: true, y: false, setScale: false },
        bind: {
          dblclick: () => () => {
            zoom(0, end);
            return null;
          },
        },
      },
      scales: scales,
      axes: axes,
      series: [{}].concat(
        chart.curves.map((c) => ({
          label: c.label,
          stroke: colour(c.colour),
          width: c.strong ? 2 : 1.75,
          show: !c.hidden,
          dash: c.dashed ? [6, 3] : undefined,
          scale: c.right ? "right" : "y",
          fill: c.area ? colour(c.colour) + "22" : undefined,
          points: { show: false },
          spanGaps: Boolean(c.right),
        })),
      ),
      hooks: {
        setCursor: [(u) => chart.read(u)], setSelect: [selected], draw: named ? [nameWindows] : [],
        drawClear: [shadeWindows].concat(chart.heat ? (u) => paintHeat(u, chart.heat) : []),
        ready: [(u) => {
          u.over.addEventListener("mouseenter", () => (hovered = u));
          u.over.addEventListener("mouseleave", () => (hovered = null));
        }],
      },
    };
  }

  // values are those of a curve that can be drawn: a log scale has no place for zero and below.
  const values = (chart, c) => (chart.log ? c.values.map((v) => (v > 0 ? v : null)) : c.values);

  // summary tells who can't see a chart what its curves come to.
  function summary(chart) {
    const parts = chart.curves.map((c) => {
      const known = values(chart, c).filter((v) => v !== null);
      return (
        c.label +
        (known.length
          ? " up to " +
            figure(
              known.reduce((a, b) => Math.max(a, b)),
              unitOf(chart, c),
            )
          : " nothing")
      );
    });
    return chart.title + ": " + parts.join(", ") + ". The same figures are in the table below the charts.";
  }

  // draw builds a chart in its figure; it is called again when the colours change.
  function draw(chart) {
    if (chart.plot) chart.plot.destroy();
    chart.holder.replaceChildren();
    const caption = element("div", "", chart.holder, "caption");
    element("figcaption", chart.title, caption);
    addLegend(caption, chart);
    const plot = element("div", "", chart.holder, "plot");
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", summary(chart));
    chart.plot = new uPlot(
      plotOptions(chart, plot.clientWidth || 600),
      [data.time].concat(chart.curves.map((c) => values(chart, c))),
      plot,
    );
  }

  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const chart = drawn.find((c) => c.holder === entry.target);
      const plot = chart && chart.holder.querySelector(".plot");
      if (plot && plot.clientWidth && Math.abs(plot.clientWidth - chart.plot.width) > 1) {
        chart.plot.setSize({ width: plot.clientWidth, height: chart.height });
      }
    }
  });

  function showTimeline() {
    const holder = document.querySelector(".timeline");
    addControls(holder);
    for (const chart of data.charts) {
      chart.holder = document.querySelector('[data-chart="' + chart.id + '"]');
      if (!chart.holder) continue; // its curves are only in the table
      chart.title = chart.holder.textContent;
      draw(chart);
      drawn.push(chart);
      resized.observe(chart.holder);
    }
    addTable(holder.parentElement);
    announce();
  }

  let reading = null, moment = null, table = null;

  // addControls makes the charts one thing that the keyboard can move.
  function addControls(charts) {
    const bar = element("div", "", null, "timebar");
    charts.before(bar);
    reading = element("output", "", bar, "range");
    moment = element("span", hint, bar, "moment");
    const buttons = [
      ["−", "Zoom out", () => scale(2)],
      ["+", "Zoom in", () => scale(0.5)],
      ["◂", "Earlier", () => pan(-0.25)],
      ["▸", "Later", () => pan(0.25)],
      ["Whole run", "Show the whole run", () => zoom(0, end)],
    ];
    for (const [sign, name, act] of buttons) {
      const button = element("button", sign, bar);
      button.type = "button";
      button.title = name;
      button.setAttribute("aria-label", name);
      button.addEventListener("click", act);
    }
    const keys = {
      ArrowLeft: () => pan(-0.25),
      ArrowRight: () => pan(0.25),
      "+": () => scale(0.5),
      "=": () => scale(0.5),
      "-": () => scale(2),
      0: () => zoom(0, end),
      Home: () => pan(-end),
      End: () => pan(end),
    };
    charts.tabIndex = 0;
    charts.setAttribute("role", "group");
    charts.setAttribute(
      "aria-label",
      "Charts on one time axis: arrow keys move, plus and minus zoom, 0 shows the whole run",
    );
    charts.addEventListener("keydown", (e) => {
      if (e.target !== charts || e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
  }

  function announce() {
    const [from, to] = shown();
    const text = range ? from.toFixed(2) + " to " + to.toFixed(2) + " s" : "whole run, " + end.toFixed(1) + " s";
    if (reading.textContent !== text) reading.textContent = text;
  }

  // readMoment says what was going on at the cursor.
  function readMoment(u) {
    const at = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null;
    if (at === null || at === undefined) {
      moment.textContent = hint;
      return;
    }
    const parts = [at.toFixed(2) + " s"];
    for (const p of data.phases) if (at >= p.from && at < p.to) parts.push(p.name);
    for (const f of data.windows) if (at >= f.from && at <= f.to) parts.push(f.label + " " + f.name);
    const near = (shown()[1] - shown()[0]) / 150;
    const marks = data.marks.filter((m) => Math.abs(m.at - at) <= near);
    if (marks.length) parts.push(marks[0].name + (marks.length > 1 ? " and " + (marks.length - 1) + " more" : ""));
    moment.textContent = parts.join(" · ");
  }

  // merged makes one number of several of a curve, as the table shows it.
  function merged(c, numbers) {
    if (!numbers.length) return null;
    return c.mean ? numbers.reduce((a, b) => a + b, 0) / numbers.length : Math.max(...numbers);
  }

  function addTable(holder) {
    const fold = element("details", "", holder, "fold");
    element("summary", "The curves as a table", fold);
    const box = element("div", "", fold, "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "The curves as a table");
    table = { fold: fold, box: box };
    fold.addEventListener("toggle", fillTable);
  }

  // fillTable shows what the charts show, in at most 40 rows.
  function fillTable() {
    if (!table || !table.fold.open) return;
    const [from, to] = shown();
    const within = data.time.map((t, i) => i).filter((i) => data.time[i] >= from && data.time[i] <= to);
    const every = Math.max(1, Math.ceil(within.length / 40));
    const columns = data.charts.flatMap((chart) => chart.curves).filter((c) => c.column);
    const t = element("table", "", null, "curves");
    element(
      "caption",
      "From " +
        from.toFixed(2) +
        " to " +
        to.toFixed(2) +
        " s; rates and p50 are means of the time, the others its highest",
      t,
    );
    const head = element("tr", "", element("thead", "", t));
    for (const title of ["Second"].concat(
      columns.map((c) => c.column),
      "Faults",
    ))
      element("th", title, head).scope = "col";
    const body = element("tbody", "", t);
    for (let i = 0; i < within.length; i += every) {
      const part = within.slice(i, i + every);
      const row = element("tr", "", body);
      element("th", data.time[part[0]].toFixed(2), row).scope = "row";
      for (const c of columns)
        element(
          "td",
          figure(
            merged(
              c,
              part.map((n) => c.values[n]).filter((v) => v !== null),
            ),
          ),
          row,
        );
      const first = data.time[part[0]],
        last = data.time[part[part.length - 1]];
      element(
        "td",
        data.windows
          .filter((f) => f.from <= last && f.to >= first)
          .map((f) => f.label)
          .join(" "),
        row,
      );
    }
    table.box.replaceChildren(t);
  }

  showTimeline();
  const redraw = () => drawn.forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("dlqbench:colours", redraw);
  // Paper is white: for printing everything is drawn in the light colours.
  addEventListener("beforeprint", () => { root.classList.add("paper"); redraw(); });
  addEventListener("afterprint", () => { root.classList.remove("paper"); redraw(); });
})();
