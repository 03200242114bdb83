// Draws the charts of the report and makes its buttons work. Everything that comes from the run is set as text, never as markup.
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const data = JSON.parse(document.getElementById("data").textContent);
  const drawn = [];

  function colour(name) {
    return getComputedStyle(root).getPropertyValue("--" + name).trim();
  }

  function element(tag, text, parent) {
    const e = document.createElement(tag);
    if (text) e.textContent = text;
    if (parent) parent.appendChild(e);
    return e;
  }

  function figure(v, unit) {
    if (v === null || v === undefined) return "–";
    const a = Math.abs(v);
    const text = a >= 100 ? Math.round(v).toLocaleString("en-US") : a >= 10 ? v.toFixed(1) : a === 0 ? "0" : v.toFixed(2);
    return unit ? text + " " + unit : text;
  }

  // short prints the value of an axis mark: 20k, 1.5M.
  function short(v) {
    if (v === null) return "";
    if (v >= 1e6) return +(v / 1e6).toFixed(2) + "M";
    if (v >= 1e4) return +(v / 1e3).toFixed(1) + "k";
    return String(+v.toFixed(3));
  }

  // shadeFaults paints the windows in which faults were in force, behind the curves.
  function shadeFaults(u) {
    const ctx = u.ctx, box = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    for (const f of data.faults) {
      const from = u.valToPos(f.from, "x", true);
      const width = Math.max(u.valToPos(f.to, "x", true) - from, 2 * devicePixelRatio);
      ctx.fillStyle = colour("shade");
      ctx.fillRect(from, box.top, width, box.height);
      ctx.fillStyle = colour("edge");
      ctx.fillRect(from, box.top, devicePixelRatio, box.height);
      ctx.fillRect(from + width - devicePixelRatio, box.top, devicePixelRatio, box.height);
    }
    ctx.fillStyle = colour("axis");
    for (const p of data.phases) {
      if (p.from <= u.scales.x.min) continue;
      const x = Math.round(u.valToPos(p.from, "x", true));
      for (let y = box.top; y < box.top + box.height; y += 6 * devicePixelRatio) ctx.fillRect(x, y, 1, 2 * devicePixelRatio);
    }
    ctx.restore();
  }

  // nameWindows writes the phases above the plot and the faults at its top, where there is room for the words.
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
    for (const f of data.faults) {
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
  }

  function addLegend(holder, chart, unit) {
    const legend = element("div", "", holder);
    legend.className = "legend";
    const outputs = chart.series.map((s, i) => {
      const button = element("button", "", legend);
      button.type = "button";
      button.setAttribute("aria-pressed", String(s.show !== false));
      element("i", "", button).style.background = colour(s.colour);
      element("span", s.label, button);
      button.addEventListener("click", () => {
        s.show = s.show === false;
        button.setAttribute("aria-pressed", String(s.show));
        chart.plot.setSeries(i + 1, { show: s.show });
      });
      return element("output", "", button);
    });
    chart.read = function (u) {
      outputs.forEach((out, i) => {
        out.textContent = u.cursor.idx === null || u.cursor.idx === undefined ? "" : figure(u.data[i + 1][u.cursor.idx], unit);
      });
    };
  }

  // decades keeps the marks at powers of ten of a log scale; lines at all of them would drown the curves.
  function decades(u, marks) {
    return marks.map((v) => (Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null));
  }

  function plotOptions(chart, width) {
    const axis = {
      stroke: colour("axis"), font: "12px system-ui, sans-serif", grid: { stroke: colour("grid"), width: 1 },
      ticks: { stroke: colour("grid"), width: 1, size: 5 },
    };
    const narrow = width < 520;
    const hooks = { setCursor: [(u) => chart.read(u)] };
    if (chart.time) {
      hooks.drawClear = [shadeFaults];
      if (chart.named) hooks.draw = [nameWindows];
    }
    return {
      width: width, height: chart.height, legend: { show: false }, padding: [chart.named ? 20 : 8, 10, 0, 0],
      cursor: { y: false, sync: chart.time ? { key: "time" } : undefined, drag: { x: true, y: false } },
      scales: {
        x: { time: false, range: chart.range },
        y: chart.log ? { distr: 3, log: 10 } : { range: (u, low, high) => [0, Math.max(1, high || 0) * 1.12] },
      },
      axes: [
        Object.assign({ size: 30, space: narrow ? 44 : 60 }, axis, chart.xAxis),
        Object.assign({ size: narrow ? 44 : 56, space: 34 }, axis, {
          values: (u, marks) => marks.map((v) => (v === null ? null : short(v))),
          grid: Object.assign({}, axis.grid, chart.log ? { filter: decades } : {}),
          ticks: Object.assign({}, axis.ticks, chart.log ? { filter: decades } : {}),
        }),
      ],
      series: [{}].concat(chart.series.map((s) => ({
        label: s.label, stroke: colour(s.colour), width: 1.75, show: s.show !== false, dash: s.dash,
        fill: s.area ? colour(s.colour) + "22" : undefined, points: { show: false }, spanGaps: false,
      }))),
      hooks: hooks,
    };
  }

  // draw builds a chart in its figure; it is called again when the colours change.
  function draw(chart) {
    if (chart.plot) chart.plot.destroy();
    chart.holder.replaceChildren();
    const caption = element("div", "", chart.holder);
    caption.className = "caption";
    if (chart.title) element("figcaption", chart.title, caption);
    addLegend(caption, chart, chart.unit);
    const plot = element("div", "", chart.holder);
    plot.className = "plot";
    chart.plot = new uPlot(plotOptions(chart, plot.clientWidth || 600), chart.data, plot);
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

  function show(name, chart) {
    chart.holder = document.querySelector('[data-chart="' + name + '"]');
    if (!chart.holder) return null;
    const caption = chart.holder.querySelector("figcaption");
    chart.title = caption ? caption.textContent : "";
    draw(chart);
    drawn.push(chart);
    resized.observe(chart.holder);
    return chart;
  }

  function curve(name, label, colourName, more) {
    return Object.assign({ label: label, colour: colourName, data: data.curves[name] || [] }, more);
  }

  function showTimeline() {
    const end = Math.max(data.end, data.time.length ? data.time[data.time.length - 1] : 0);
    const xAxis = { values: (u, marks) => marks.map((v) => short(v) + " s") };
    const range = (u, low, high) => (low === data.time[0] && high === data.time[data.time.length - 1] ? [0, end] : [low, high]);
    const charts = {
      rates: { named: true, height: 210, unit: "/s", series: [curve("sent", "sent", "sent", { area: true }), curve("processed", "processed", "processed")] },
      failures: { height: 150, unit: "/s", series: [curve("retries", "retries", "retries"), curve("deadLetters", "dead letters", "dead", { area: true })] },
      latency: { height: 170, unit: "ms", log: true, series: [curve("p50", "p50", "p50"), curve("p99", "p99", "p99")] },
      lag: { height: 150, series: [curve("lag", "lag", "lag", { area: true })] },
    };
    for (const name of Object.keys(charts)) {
      const c = charts[name];
      // A log scale has no place for zero and below.
      const clean = (values) => (c.log ? values.map((v) => (v > 0 ? v : null)) : values);
      show(name, Object.assign(c, { time: true, range: range, xAxis: xAxis, data: [data.time].concat(c.series.map((s) => clean(s.data))) }));
    }
  }

  // percentile prints a mark of the percentile axis: 1 is p90, 2 is p99.
  function percentile(nines) {
    if (nines === 0) return "0 %";
    return String(+(100 * (1 - Math.pow(10, -nines))).toFixed(Math.max(0, Math.ceil(nines) - 2 + 1))) + " %";
  }

  function showPercentiles() {
    const pick = document.getElementById("pick-latency");
    if (!pick || !data.percentiles.length) return;
    data.percentiles.forEach((l, i) => (element("option", l.title, pick).value = String(i)));
    let chart = null;
    const choose = () => {
      const latency = data.percentiles[+pick.value];
      document.getElementById("pick-span").textContent = latency.span;
      const last = latency.nines[latency.nines.length - 1];
      const next = {
        height: 280, unit: "ms", log: true, range: (u, low, high) => [low, Math.max(high, 1)],
        series: latency.phases.map((p, i) => ({ label: p.name === "all" ? "whole run" : p.name, colour: "c" + (i % 8), show: i === 0 || p.count >= 20 })),
        data: [latency.nines].concat(latency.phases.map((p) => p.values.map((v) => (v > 0 ? v : null)))),
        xAxis: {
          splits: () => [0, Math.log10(2), 1, 2, 3, 4, 5, 6].filter((v) => v <= Math.max(last, 1) + 1e-6),
          values: (u, marks) => marks.map(percentile),
        },
      };
      if (chart) draw(Object.assign(chart, next));
      else chart = show("percentiles", next);
    };
    const success = data.percentiles.findIndex((l) => l.key === "success");
    pick.value = String(Math.max(0, success));
    pick.addEventListener("change", choose);
    choose();
  }

  function wireButtons() {
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.addEventListener("click", async () => {
        const source = document.getElementById(button.dataset.copy);
        let done = true;
        try {
          await navigator.clipboard.writeText(source.textContent);
        } catch (refused) {
          // A page opened from a disk may not write the clipboard; then the text is selected for the reader's own copy key.
          getSelection().selectAllChildren(source);
          done = document.execCommand("copy");
        }
        button.textContent = done ? "Copied" : "Selected";
        setTimeout(() => (button.textContent = "Copy"), 1600);
      });
    }
    for (const button of document.querySelectorAll("[data-unfold]")) {
      button.addEventListener("click", () => {
        const open = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(open));
        button.textContent = open ? "Fold all" : "Unfold all";
        for (const d of document.getElementById(button.dataset.unfold).querySelectorAll("details")) d.open = open;
      });
    }
  }

  wireButtons();
  showTimeline();
  showPercentiles();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));
  // Paper is white: for printing everything is drawn in the light colours.
  addEventListener("beforeprint", () => { root.classList.add("paper"); drawn.forEach(draw); });
  addEventListener("afterprint", () => { root.classList.remove("paper"); drawn.forEach(draw); });
})();
