// Draws the running system: workload → Kafka (topics, brokers) → the consumer's instances → downstream, schema
// registry, dead-letter topic and store. It is laid out anew when something appears or goes, and otherwise only its
// texts, marks and speeds change. Everything that comes from the run is set as text.

const NS = "http://www.w3.org/2000/svg";

function shape(tag, attributes, parent) {
  const e = document.createElementNS(NS, tag);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(e);
  return e;
}

// level grows with the logarithm of a rate, so that 20 and 2000 a second look different and both can be seen; 0 is
// nothing at all.
function level(rate) {
  return rate < 0.05 ? 0 : Math.min(8, Math.max(1, Math.round(1 + 1.6 * Math.log10(1 + rate))));
}

export function short(v) {
  if (v === null || v === undefined) return "–";
  const a = Math.abs(v);
  if (a >= 1e6) return +(v / 1e6).toFixed(2) + "M";
  if (a >= 1e5) return Math.round(v / 1e3) + "k";
  if (a >= 1e4) return +(v / 1e3).toFixed(1) + "k";
  return a >= 20 || a === Math.round(a) ? Math.round(v).toLocaleString("en-US") : v.toFixed(1);
}

// curve joins two points that face each other, sideways or downwards.
function curve(x1, y1, x2, y2, down) {
  if (down) {
    const m = (y1 + y2) / 2;
    return `M${x1} ${y1}C${x1} ${m} ${x2} ${m} ${x2} ${y2}`;
  }
  const m = (x1 + x2) / 2;
  return `M${x1} ${y1}C${m} ${y1} ${m} ${y2} ${x2} ${y2}`;
}

// wide lays everything out from left to right, 1040 units wide.
function wide(m) {
  const n = m.instances.length, compact = n > 5, step = compact ? 38 : 62, high = compact ? 32 : 52;
  const span = n * step - (step - high);
  const body = m.store ? Math.max(span + 56, 262) : Math.max(span, 218);
  const H = body + 112,
    box = {},
    edge = {};
  const zone = {
    kafka: { x: 196, y: 8, w: 292, h: H - 16, name: "KAFKA" },
    consumer: { x: 592, y: 8, w: 214, h: H - 16 - (m.store ? 70 : 0), name: "CONSUMER" },
  };
  box.workload = { x: 8, y: 70, w: 132, h: 74 };
  box.input = { x: 212, y: 36, w: 260, h: 142 };
  box.dlq = { x: 212, y: 196, w: 260, h: 62 };
  const brokerY = H - 52;
  m.brokers.forEach(
    (b, i) =>
      (box["broker " + b] = {
        x: 212 + i * Math.min(90, 264 / m.brokers.length),
        y: brokerY,
        w: Math.min(82, 264 / m.brokers.length - 8),
        h: 30,
      }),
  );
  const top = 36 + (zone.consumer.h - 36 - 34 - span) / 2;
  m.instances.forEach(
    (inst, i) => (box[inst.id] = { x: 608, y: Math.max(36, top) + i * step, w: 182, h: high, compact: compact }),
  );
  box.retries = { x: 608, y: zone.consumer.y + zone.consumer.h - 34, w: 182, h: 26, bare: true };
  box.downstream = { x: 900, y: 70, w: 132, h: 74 };
  edge.send = curve(140, 107, 208, 107);
  m.instances.forEach((inst, i) => {
    const b = box[inst.id], mid = b.y + b.h / 2;
    edge["fetch " + inst.id] = curve(472, 62 + (i + 1) * 56 / (n + 1), b.x - 5, mid - (compact ? 3 : 7));
    edge["call " + inst.id] = curve(b.x + b.w, mid, 895, 76 + (i + 1) * 62 / (n + 1));
  });
  edge.commit = curve(592, 146, 478, 146);
  edge.dead = curve(592, 227, 478, 227);
  if (m.registry) {
    box.registry = { x: 900, y: 176, w: 132, h: 74 };
    edge.ask = curve(806, 231, 895, 213);
  }
  if (m.store) {
    box.store = { x: 850, y: H - 86, w: 182, h: 78 };
    edge.store = `M472 246C540 246 540 ${H - 36} 592 ${H - 36}L845 ${H - 36}`;
  }
  return { width: 1040, height: H, box, edge, zone };
}

// tall lays everything out from top to bottom, 400 units wide, for narrow screens.
function tall(m) {
  const n = m.instances.length,
    rows = Math.ceil(n / 2),
    box = {},
    edge = {};
  const zone = {
    kafka: { x: 6, y: 92, w: 388, h: 192, name: "KAFKA" },
    consumer: { x: 6, y: 334, w: 388, h: rows * 62 + 62, name: "CONSUMER" },
  };
  box.workload = { x: 38, y: 6, w: 180, h: 56 };
  box.input = { x: 18, y: 118, w: 220, h: 118 };
  box.dlq = { x: 252, y: 118, w: 130, h: 118 };
  m.brokers.forEach(
    (b, i) =>
      (box["broker " + b] = {
        x: 18 + i * Math.min(92, 368 / m.brokers.length),
        y: 246,
        w: Math.min(84, 368 / m.brokers.length - 8),
        h: 28,
      }),
  );
  m.instances.forEach(
    (inst, i) => (box[inst.id] = { x: 18 + (i % 2) * 188, y: 362 + Math.floor(i / 2) * 62, w: 176, h: 52 }),
  );
  const bottom = zone.consumer.y + zone.consumer.h;
  box.retries = { x: 18, y: bottom - 32, w: 364, h: 26, bare: true };
  box.downstream = { x: 62, y: bottom + 46, w: 132, h: 74 };
  edge.send = curve(128, 62, 128, 113, true);
  m.instances.forEach((inst, i) => {
    const b = box[inst.id], mid = b.x + b.w / 2;
    if (i < 2) edge["fetch " + inst.id] = curve(90 + i * 60, 236, mid, b.y - 5, true);
  });
  edge["call " + (m.instances.length ? m.instances[0].id : "")] = curve(128, bottom, 128, bottom + 41, true);
  edge.commit = curve(44, 334, 44, 241, true);
  edge.dead = curve(318, 334, 318, 241, true);
  const below = m.registry && m.store ? 90 : 0; // another row
  if (m.registry) {
    box.registry = below ? { x: 62, y: bottom + 46 + below, w: 132, h: 74 } : { x: 220, y: bottom + 46, w: 132, h: 74 };
    edge.ask = below
      ? `M207 ${bottom}L207 ${bottom + 83 + below}L199 ${bottom + 83 + below}`
      : curve(286, bottom, 286, bottom + 41, true);
  }
  if (m.store) {
    box.store = { x: 220, y: bottom + 46, w: 168, h: 74 };
    edge.store =
      `M382 200C399 200 397 240 397 300L397 ${bottom}` +
      `C397 ${bottom + 30} 304 ${bottom + 10} 304 ${bottom + 41}`;
  }
  return { width: 400, height: bottom + 128 + below, box, edge, zone };
}

export class Drawing {
  // holder gets the picture; pick is called with what was clicked, if anything may be broken.
  constructor(holder, pick) {
    this.holder = holder;
    this.pick = pick;
    this.parts = {};
    new ResizeObserver(() => this.last && this.show(this.last)).observe(holder);
  }

  // show draws a model: {may, workload, input: {name, lanes, lag}, dlq, store, registry, brokers, instances,
  // downstream, retries, marks}.
  show(model) {
    this.last = model;
    const narrow = this.holder.clientWidth < 620;
    const form = JSON.stringify([
      narrow,
      model.may,
      model.brokers,
      model.instances.map((i) => i.id),
      Boolean(model.store),
      Boolean(model.registry),
      model.input.lanes.length,
    ]);
    if (form !== this.form) {
      this.form = form;
      this.build(narrow ? tall(model) : wide(model), model);
    }
    this.update(model);
  }

  build(plan, model) {
    const focused =
      document.activeElement && document.activeElement.dataset && this.holder.contains(document.activeElement)
        ? document.activeElement.dataset.part
        : null;
    const svg = shape("svg", {
      viewBox: `0 0 ${plan.width} ${plan.height}`,
      role: "group",
      "aria-labelledby": "system-title",
    });
    this.parts = {};
    this.plan = plan;
    for (const name in plan.zone) {
      const z = plan.zone[name];
      shape("rect", { class: "zone", x: z.x, y: z.y, width: z.w, height: z.h, rx: 12 }, svg);
      shape("text", { class: "zone-name", x: z.x + 14, y: z.y + 18 }, svg).textContent = z.name;
    }
    for (const id in plan.edge) this.addEdge(svg, id, plan.edge[id]);
    for (const id in plan.box) this.addNode(svg, id, plan.box[id], model);
    this.top = shape("g", {}, svg);
    this.holder.replaceChildren(svg);
    if (focused) this.holder.querySelector(`[data-part="${CSS.escape(focused)}"]`)?.focus();
  }

  addEdge(svg, id, path) {
    const g = shape("g", {}, svg);
    const flow = shape("path", { class: "flow", d: path, "stroke-width": 2 }, g);
    const kind = id.split(" ")[0];
    const pulse = shape(
      "path",
      {
        class: "pulse still " + { send: "sent", fetch: "sent", dead: "dead", store: "dead", commit: "commit" }[kind],
        d: path,
        "stroke-width": 3,
      },
      g,
    );
    const head = this.arrow(g, flow);
    this.parts["edge " + id] = { g, flow, pulse, head };
  }

  // arrow puts a head at the end of a path.
  arrow(g, path) {
    const length = path.getTotalLength ? path.getTotalLength() : 0;
    const a = path.getPointAtLength(Math.max(0, length - 4)), b = path.getPointAtLength(length);
    const turn = (Math.atan2(b.y - a.y, b.x - a.x) * 180) / Math.PI;
    return shape(
      "path",
      { class: "flow", d: "M-6 -5L0 0L-6 5", "stroke-width": 2, transform: `translate(${b.x} ${b.y}) rotate(${turn})` },
      g,
    );
  }

  addNode(svg, id, b, model) {
    const g = shape("g", { class: "node", "data-part": id }, svg);
    const part = { g, b };
    if (!b.bare) shape("rect", { class: "box", x: b.x, y: b.y, width: b.w, height: b.h, rx: 9 }, g);
    if (id.startsWith("broker ")) {
      g.classList.add("broker");
      part.title = shape("text", { class: "soft", x: b.x + b.w / 2, y: b.y + b.h / 2 + 4, "text-anchor": "middle" }, g);
    } else if (b.bare) {
      part.title = shape("text", { class: "soft", x: b.x + 2, y: b.y + 18 }, g);
    } else if (id === "input") {
      this.fillInput(g, part, b, model);
    } else if (/^(instance|process) /.test(id)) {
      shape("circle", { class: "dot", cx: b.x + 15, cy: b.y + (b.compact ? 16 : 19), r: 4.5 }, g);
      part.title = shape("text", { class: "title", x: b.x + 27, y: b.y + (b.compact ? 20 : 23) }, g);
      part.soft = shape(
        "text",
        b.compact
          ? { class: "soft", x: b.x + b.w - 10, y: b.y + 20, "text-anchor": "end" }
          : { class: "soft", x: b.x + 27, y: b.y + 41 },
        g,
      );
    } else {
      if (id === "dlq") g.classList.add("dlq");
      part.title = shape("text", { class: "title", x: b.x + 13, y: b.y + 21 }, g);
      part.figure = shape("text", { class: "figure", x: b.x + 13, y: b.y + 44 }, g);
      part.soft = shape(
        "text",
        b.w > 200
          ? { class: "soft", x: b.x + b.w - 13, y: b.y + 43, "text-anchor": "end" }
          : { class: "soft", x: b.x + 13, y: b.y + (b.h > 66 ? 62 : 50) },
        g,
      );
      if (b.h <= 56)
        (part.figure.setAttribute("y", b.y + 43),
          part.soft.setAttribute("x", b.x + b.w - 10),
          part.soft.setAttribute("y", b.y + 42),
          part.soft.setAttribute("text-anchor", "end"));
    }
    for (const text of g.querySelectorAll("text")) text.after(" "); // else a reader would join their words
    if (model.may && id !== "retries" && id !== "workload") {
      g.setAttribute("role", "button");
      g.setAttribute("tabindex", "0");
      g.addEventListener("click", () => this.pick(id));
      g.addEventListener("keydown", (e) => {
        if (e.key !== "Enter" && e.key !== " ") return;
        e.preventDefault();
        this.pick(id);
      });
    }
    this.parts[id] = part;
  }

  fillInput(g, part, b, model) {
    part.title = shape("text", { class: "title", x: b.x + 13, y: b.y + 21 }, g);
    part.figure = shape("text", { class: "figure", x: b.x + b.w - 13, y: b.y + 23, "text-anchor": "end" }, g);
    const n = Math.min(model.input.lanes.length, 24),
      room = b.h - 46,
      step = Math.min(18, room / Math.max(n, 1)),
      named = step >= 11;
    part.lanes = [];
    for (let i = 0; i < n; i++) {
      const y = b.y + 36 + i * step,
        left = b.x + (named ? 30 : 13);
      if (named)
        shape("text", { class: "soft", x: b.x + 13, y: y + step / 2 + 4, "aria-hidden": "true" }, g).textContent =
          String(model.input.lanes[i].name);
      const high = Math.max(2, Math.min(9, step - 2)),
        room = b.x + b.w - 13 - left;
      shape("rect", { class: "lane", x: left, y: y + (step - high) / 2, width: room, height: high, rx: high / 2 }, g);
      part.lanes.push({
        room,
        fill: shape(
          "rect",
          { class: "lane-fill", x: left, y: y + (step - high) / 2, width: 0, height: high, rx: high / 2 },
          g,
        ),
      });
    }
  }

  text(id, title, figure, soft, label) {
    const part = this.parts[id];
    if (!part) return;
    for (const [key, words] of [["title", title], ["figure", figure], ["soft", soft]]) {
      if (part[key] && part[key].textContent !== words) part[key].textContent = words || "";
    }
    // The name has what is seen, and the label in addition.
    if (label) part.g.setAttribute("aria-label", [title, figure, soft].filter(Boolean).join(" ") + ". " + label);
  }

  flow(id, rate) {
    const part = this.parts["edge " + id];
    if (!part) return;
    const at = level(rate || 0);
    if (part.level === at) return;
    part.level = at;
    part.flow.setAttribute("stroke-width", 1.6 + at * 0.55);
    part.pulse.classList.toggle("still", at === 0);
    part.pulse.setAttribute("stroke-width", 2 + at * 0.5);
    part.pulse.style.animationDuration = (1.7 / (0.6 + at * 0.5)).toFixed(2) + "s";
  }

  update(m) {
    this.text("workload", "Workload", short(m.workload.rate) + "/s", m.workload.words);
    this.text(
      "input",
      m.input.name.length > 20 ? m.input.name.slice(0, 19) + "…" : m.input.name,
      "lag " + short(m.input.lag),
      "",
    );
    const highest = Math.max(20, ...m.input.lanes.map((l) => l.lag));
    (this.parts.input?.lanes || []).forEach((lane, i) => {
      const lag = m.input.lanes[i] ? m.input.lanes[i].lag : 0;
      lane.fill.setAttribute("width", lag > 0 ? Math.max(3, (lane.room * lag) / highest) : 0);
      lane.fill.classList.toggle("high", lag > 3 * m.input.usual && lag > 20);
    });
    this.text(
      "dlq",
      "Dead letters",
      short(m.dlq.count),
      m.dlq.rate >= 0.05 ? "+" + short(m.dlq.rate) + "/s" : "",
      `Dead letters: ${m.dlq.count}`,
    );
    this.text(
      "downstream",
      "Downstream",
      short(m.downstream.rate) + "/s",
      m.downstream.words,
      `Downstream: ${short(m.downstream.rate)} attempts per second`,
    );
    if (m.store)
      this.text(
        "store",
        "Dead-letter store",
        short(m.store.count),
        m.store.words,
        `Dead-letter store: ${m.store.words}`,
      );
    if (m.registry)
      this.text(
        "registry",
        "Registry",
        short(m.registry.requests),
        "requests",
        `Schema registry: ${m.registry.requests} requests`,
      );
    this.text("retries", m.retries > 0 ? short(m.retries) + " in retry" : "nothing in retry");
    for (const b of m.brokers) this.text("broker " + b, "broker " + b, "", "", "Broker " + b);
    for (const i of m.instances) {
      const part = this.parts[i.id];
      if (!part) continue;
      this.text(i.id, i.name, "", part.b.compact ? i.brief : i.words, i.name + ": " + i.words);
      part.g.classList.toggle("down", i.down);
      part.g.classList.toggle("gone", i.gone);
      part.g.classList.toggle("paused", i.paused);
      part.g.classList.toggle("away", i.away);
      this.flow("fetch " + i.id, i.up ? i.fetch : 0);
      this.flow("call " + i.id, i.up ? i.attempts : 0);
    }
    if (this.plan.width === 400 && m.instances.length) {
      this.flow("call " + m.instances[0].id, m.downstream.rate);
      for (const i of m.instances.slice(0, 2))
        this.flow("fetch " + i.id, m.processed / Math.min(2, m.instances.length));
    }
    this.flow("send", m.workload.rate);
    this.flow("commit", m.processed);
    this.flow("dead", m.dlq.rate);
    this.flow("store", m.dlq.rate);
    this.mark(m.marks);
  }

  // mark shows what is broken: marks are {part: "fetch", words: "…"}; a part is an edge (or all edges of a kind) or a
  // node.
  mark(marks) {
    const form = JSON.stringify(marks);
    if (form === this.marked && this.top.isConnected && this.top.dataset.form === form) return;
    this.marked = form;
    this.top.dataset.form = form;
    this.top.replaceChildren();
    const hit = new Map();
    for (const one of marks) if (!hit.has(one.part)) hit.set(one.part, one.words);
    const named = new Set();
    for (const id in this.parts) {
      const part = this.parts[id];
      if (!id.startsWith("edge ")) {
        const words = hit.get(id);
        part.g.classList.toggle("hit", words !== undefined);
        if (words !== undefined) this.cross(part.b.x + part.b.w - 2, part.b.y + 2, "");
        continue;
      }
      const name = id.slice(5), kind = name.split(" ")[0];
      const words = hit.has(name) ? hit.get(name) : hit.get(kind);
      part.g.classList.toggle("broken-flow", words !== undefined);
      if (words === undefined) continue;
      const at = part.flow.getPointAtLength(part.flow.getTotalLength() * 0.5);
      // A fault that hits all lines of a kind is crossed out once, and named once wherever it hits.
      if (!hit.has(name) && id !== "edge " + Object.keys(this.plan.edge).find((e) => e.split(" ")[0] === kind))
        continue;
      this.cross(at.x, at.y, named.has(words) ? "" : words);
      named.add(words);
    }
  }

  cross(x, y, words) {
    const g = shape("g", { class: "mark", transform: `translate(${x} ${y})` }, this.top);
    shape("circle", { r: 9 }, g);
    shape("path", { d: "M-3.6 -3.6L3.6 3.6M3.6 -3.6L-3.6 3.6" }, g);
    if (words)
      shape("text", { x: 0, y: -14, "text-anchor": "middle" }, g).textContent =
        words.length > 26 ? words.slice(0, 25) + "…" : words;
  }
}
