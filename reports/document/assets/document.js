// Draws the figures of a document. Everything that comes from a run is set as text, never as markup.
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const figures = new Map(JSON.parse(document.getElementById("data").textContent).figures.map((f) => [f.id, f]));
  const plots = []; // { holder, figure, plot, off: the labels of the series that are hidden }
  const radius = 11; // of a point's marker

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const short = (v) => String(+v.toPrecision(6));

  function written(v, unit) {
    switch (unit) {
      case "s": {
        const a = Math.abs(v);
        if (a >= 1 || a === 0) return short(v) + " s";
        return a >= 1e-3 ? short(v * 1e3) + " ms" : short(v * 1e6) + " µs";
      }
      case "ms":
        return written(v / 1e3, "s");
      case "/s":
        return (+v.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 }) + "/s";
      case "none":
        return "";
      case "share":
        return short(v * 100) + " %";
      case "nines":
        return v === 0 ? "0 %" : String(+(100 * (1 - Math.pow(10, -v))).toFixed(Math.max(0, Math.ceil(v) - 1))) + " %";
    }
    return short(v);
  }

  // marks are the round values of a logarithmic axis: 1, 2 and 5 of each power of ten, or its powers only where there
  // are many.
  function marks(low, high) {
    const steps = high / low > 1000 ? [1] : [1, 2, 5], out = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const step of steps) out.push(step * Math.pow(10, power));
    }
    return out.filter((v) => v >= low && v <= high);
  }

  function axis(of, log, narrow) {
    const line = { stroke: colour("grid"), width: 1 };
    const out = {
      stroke: colour("axis"),
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
      grid: line,
      ticks: line,
      values: (u, marks) => marks.map((v) => (v === null ? null : written(v, of.unit))),
    };
    if (of.title) Object.assign(out, { label: of.title, labelSize: 22 });
    if (of.unit === "nines")
      out.splits = (u) => [0, Math.log10(2), 1, 2, 3, 4, 5, 6].filter((v) => v <= u.scales.x.max + 1e-6);
    if (log) out.splits = () => marks(of.low, of.high);
    return Object.assign(out, narrow ? { space: 60 } : {});
  }

  const scale = (of) => ({ time: false, distr: of.log ? 3 : 1, range: [of.low, of.high] });

  // points draws the markers with their numbers, what is around them, and names where there is room.
  function points(u, figure) {
    const ctx = u.ctx, px = devicePixelRatio, taken = [];
    const at = (x, y) => [u.valToPos(x, "x", true), u.valToPos(y, "y", true)];
    const stroke = (style, width, corners) => {
      ctx.strokeStyle = style;
      ctx.lineWidth = width * px;
      ctx.beginPath();
      corners.forEach(([x, y], i) => (i % 2 ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
      ctx.stroke();
    };
    ctx.save();
    ctx.textBaseline = "middle";
    const all = figure.series
      .filter((s) => s.shape && s.shape !== "steps")
      .map((s) => ({ s: s, p: at(s.x[0], s.y[0]) }));
    for (const { s, p } of all) {
      taken.push([p[0] - radius * px, p[1] - radius * px, p[0] + radius * px, p[1] + radius * px]);
      const [low, high] = [at(s.around[0], s.around[2]), at(s.around[1], s.around[3])];
      ctx.globalAlpha = 0.7;
      stroke(colour("soft"), 1.5, [[low[0], p[1]], [high[0], p[1]], [p[0], low[1]], [p[0], high[1]]]);
      ctx.globalAlpha = 1;
    }
    for (const {
      s,
      p: [x, y],
    } of all) {
      const arm = 7 * px,
        broken = s.shape === "broken";
      if (broken)
        stroke(colour("fail"), 3, [
          [x - arm, y - arm],
          [x + arm, y + arm],
          [x + arm, y - arm],
          [x - arm, y + arm],
        ]);
      else {
        ctx.beginPath();
        ctx.arc(x, y, radius * px, 0, 2 * Math.PI);
        ctx.fillStyle = s.shape === "front" ? colour("c1") : colour("card");
        ctx.fill();
        ctx.setLineDash(s.shape === "open" ? [3 * px, 3 * px] : []);
        ctx.lineWidth = 1.6 * px;
        ctx.strokeStyle = s.shape === "front" ? colour("c1") : colour("soft");
        ctx.stroke();
        ctx.setLineDash([]);
      }
      ctx.font = "650 " + 12 * px + "px system-ui, sans-serif";
      ctx.textAlign = "center";
      ctx.fillStyle = broken ? colour("fail") : s.shape === "front" ? colour("card") : colour("ink");
      ctx.fillText(s.label, x, broken ? y - 16 * px : y);
    }
    ctx.font = 12 * px + "px system-ui, sans-serif";
    for (const {
      s,
      p: [x, y],
    } of all) {
      const words = s.name.length > 34 ? s.name.slice(0, 33) + "…" : s.name,
        width = ctx.measureText(words).width,
        gap = (radius + 5) * px;
      for (const [align, left] of [
        ["left", x + gap],
        ["right", x - gap - width],
      ]) {
        const box = [left, y - 8 * px, left + width, y + 8 * px];
        if (
          box[0] < u.bbox.left ||
          box[2] > u.bbox.left + u.bbox.width ||
          taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])
        )
          continue;
        taken.push(box);
        ctx.textAlign = align;
        ctx.fillStyle = s.shape === "broken" ? colour("fail") : colour("ink");
        ctx.fillText(words, align === "left" ? left : left + width, y);
        break;
      }
    }
    ctx.restore();
  }

  // ends writes the number of each curve at its end, that of several with the same at the end of the first.
  function ends(u, one) {
    const ctx = u.ctx, px = devicePixelRatio;
    ctx.save();
    ctx.font = "650 " + 12 * px + "px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    const first = one.figure.series.filter((s, i, all) => all.findIndex((other) => other.label === s.label) === i);
    const all = first.filter((s) => !s.shape && !one.off.has(s.label)).map((s) => {
      const last = s.x.length - 1;
      return { s: s, x: u.valToPos(s.x[last], "x", true), y: u.valToPos(s.y[last], "y", true) };
    }).sort((a, b) => a.y - b.y);
    let next = -Infinity;
    for (const { s, x, y } of all) {
      ctx.fillStyle = colour("c" + (s.colour % 8));
      const place = Math.max(y, next);
      next = place + 12.5 * px;
      ctx.fillText(s.label, x + 6 * px, place);
    }
    ctx.restore();
  }

  function draw(one) {
    const figure = one.figure, width = Math.max(280, one.holder.clientWidth - 28), narrow = width < 520;
    const curves = figure.series.map((s) => ({
      label: s.name,
      show: !one.off.has(s.label),
      points: { show: false },
      width: s.shape && s.shape !== "steps" ? 0 : 2,
      stroke: colour("c" + (s.colour % 8)),
      dash: s.shape === "steps" ? [6, 4] : [[], [7, 4], [2, 3]][Math.floor(s.colour / 8) % 3],
      paths: s.shape === "steps" ? uPlot.paths.stepped({ align: -1 }) : undefined,
    }));
    if (one.plot) one.plot.destroy();
    one.plot = new uPlot(
      {
        width: width,
        height: narrow ? 280 : 380,
        legend: { show: false },
        padding: [12, 26, 0, 0],
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: { x: scale(figure.x), y: scale(figure.y) },
        axes: [
          axis(figure.x, figure.x.log, narrow),
          Object.assign({ size: narrow ? 56 : 74 }, axis(figure.y, figure.y.log, narrow)),
        ],
        series: [{}].concat(curves),
        hooks: { draw: [(u) => points(u, figure), (u) => ends(u, one)], setCursor: [(u) => read(u, one)] },
      },
      uPlot.join(figure.series.map((s) => [s.x, s.y])),
      one.holder,
    );
  }

  // read says what is under the mouse: the values of the curves, or the point that is nearest.
  function read(u, one) {
    const at = u.cursor.idx, figure = one.figure;
    figure.series.forEach((s, i) => {
      const value = at === null || at === undefined ? null : u.data[i + 1][at];
      const out = one.outputs && one.outputs[i];
      if (out)
        out.textContent = value === null || value === undefined ? "" : written(+value.toPrecision(3), figure.y.unit);
    });
    const near = figure.series.find((s) => s.shape && s.shape !== "steps" &&
      Math.hypot(u.valToPos(s.x[0], "x") - u.cursor.left, u.valToPos(s.y[0], "y") - u.cursor.top) < 1.5 * radius);
    u.over.title = near ? near.label + ". " + near.name : "";
  }

  // addLegend names the curves; a click hides the one with that label in all figures or shows it again.
  function addLegend(one) {
    const legend = document.createElement("div");
    legend.className = "legend";
    one.outputs = one.figure.series.map((s) => {
      if (s.shape) return null;
      if (s.hidden) one.off.add(s.label);
      const out = document.createElement("output");
      const same = Array.from(legend.children).find((button) => button.dataset.series === s.label);
      if (same) {
        same.append(out);
        return out;
      }
      const button = document.createElement("button"),
        line = document.createElement("i"),
        name = document.createElement("span");
      button.type = "button";
      button.dataset.series = s.label;
      button.setAttribute("aria-pressed", String(!s.hidden));
      line.style.background = colour("c" + (s.colour % 8));
      name.textContent = s.label + " " + s.name;
      button.append(line, name, out);
      button.addEventListener("click", () => hide(s.label, button.getAttribute("aria-pressed") === "true"));
      legend.append(button);
      return out;
    });
    one.holder.append(legend);
  }

  function hide(label, off) {
    for (const one of plots) {
      if (off) one.off.add(label);
      else one.off.delete(label);
      for (const button of one.holder.querySelectorAll("[data-series]"))
        if (button.dataset.series === label) button.setAttribute("aria-pressed", String(!off));
      draw(one);
    }
  }

  for (const holder of document.querySelectorAll("[data-figure]")) {
    const one = { holder: holder, figure: figures.get(holder.dataset.figure), off: new Set() };
    plots.push(one);
    addLegend(one);
    draw(one);
  }

  // One choice is shown at a time; on paper all are.
  const choice = document.getElementById("which");
  if (choice) {
    const show = () => {
      for (const holder of document.querySelectorAll(".choice"))
        holder.classList.toggle("away", holder.dataset.figure !== choice.value);
    };
    choice.addEventListener("change", show);
    show();
  }

  const redraw = () => plots.forEach(draw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("dlqbench:colours", redraw);
  // Paper is white: for printing everything is drawn in the light colours.
  addEventListener("beforeprint", () => { root.classList.add("paper"); redraw(); });
  addEventListener("afterprint", () => { root.classList.remove("paper"); redraw(); });
})();
