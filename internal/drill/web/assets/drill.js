// The page of a drill: it shows what the server sends, and sends back what people do. Everything that comes from the
// run, or from other people, is set as text, never as markup.
import { Drawing, short } from "./drawing.js";
import { Charts, Tile, clock } from "./charts.js";
import { BreakForm } from "./forms.js";

const role = document.body.dataset.role, key = document.body.dataset.key;
const $ = (id) => document.getElementById(id);

function element(tag, words, parent, kind) {
  const e = document.createElement(tag);
  if (words !== undefined && words !== null) e.textContent = words;
  if (kind) e.className = kind;
  if (parent) parent.append(e);
  return e;
}

const seconds = (ns) => ns / 1e9;
const moment = (ns) => (ns < 0 ? "−" : "") + clock(Math.abs(seconds(ns)));
const long = (ns) => {
  const s = seconds(ns);
  return s < 1 ? Math.round(s * 1000) + " ms" : s < 60 ? +s.toFixed(1) + " s" : clock(s) + " min";
};
const ms = (ns) =>
  ns ? (ns >= 1e9 ? +(ns / 1e9).toFixed(2) + " s" : +(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0) + " ms") : "–";

let state = null;
const charts = new Charts();
const lines = [];

// ---- What people do -------------------------------------------------------------------------------------------------

let answerTimer = 0;
function answer(words, bad) {
  const box = $("answer");
  box.textContent = words;
  box.classList.toggle("bad", Boolean(bad));
  box.hidden = false;
  clearTimeout(answerTimer);
  answerTimer = setTimeout(() => (box.hidden = true), bad ? 9000 : 3500);
}

// act asks the server to do something; it tells how that went and returns whether it did.
async function act(action, order, button) {
  if (button) button.disabled = true;
  try {
    const response = await fetch("do/" + action, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-Dlqbench-Form": key },
      body: JSON.stringify(Object.assign({ by: $("by").value.trim() }, order)),
      signal: AbortSignal.timeout(90000),
    });
    const told = await response.json().catch(() => ({}));
    answer(told.message || told.error || "The server answered " + response.status, !response.ok);
    return response.ok;
  } catch (failure) {
    answer(
      "The drill can't be reached: " + failure.message + ". Ctrl-C in its terminal heals everything and ends it.",
      true,
    );
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

function wire() {
  $("heal-all").addEventListener("submit", (e) => {
    e.preventDefault();
    act("heal-all", {}, e.target.querySelector("button"));
  });
  $("notice").addEventListener("submit", async (e) => {
    e.preventDefault();
    if (await act("notice", { text: $("notice-text").value.trim() }, e.target.querySelector("button")))
      $("notice-text").value = "";
  });
  const note = async (e) => {
    e.preventDefault();
    if (!$("note-text").value.trim()) return answer("A note needs words.", true);
    if (await act("note", { text: $("note-text").value.trim() })) $("note-text").value = "";
  };
  $("note").addEventListener("submit", note);
  $("note-text").addEventListener("keydown", (e) =>
    e.key === "Enter" && !e.shiftKey && !e.isComposing ? note(e) : null,
  );
  $("replay").addEventListener("submit", (e) => {
    e.preventDefault();
    act("replay", {}, e.target.querySelector("button"));
  });
  for (const button of $("scale").querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => act("scale", { instances: running() + Number(button.dataset.step) }));
  }
  $("stop").addEventListener("click", () => $("sure").showModal());
  $("sure-no").addEventListener("click", () => $("sure").close());
  $("sure-yes").addEventListener("click", () => {
    $("sure").close();
    act("stop", {}, $("stop"));
  });
  $("log-hands").addEventListener("change", showLog);
  const join = () => ($("by").value.trim() ? act("join", {}) : answer("Say your name first.", true));
  $("joining").addEventListener("submit", (e) => {
    e.preventDefault();
    join();
  });
  try {
    $("by").value = sessionStorage.getItem("by") || "";
    $("by").addEventListener("change", () => sessionStorage.setItem("by", $("by").value));
    if ($("by").value) join();
  } catch (refused) { /* A browser that keeps nothing: the name is typed again. */ }
}

const breaking = new BreakForm($("break"), async (spec) => {
  await act("break", { spec }, $("break").querySelector("button.danger"));
});

// pick presets the form for what was clicked in the drawing.
function pick(part) {
  const [kind, number] = part.split(" ");
  const likely = {
    broker: ["broker.stop", { "broker.broker": number }],
    instance: ["subject.signal", { "subject.instance": number, "subject.signal": "KILL" }],
    downstream: ["downstream.outage", {}],
    dlq: ["kafka.error", { "kafka.api": "Produce", "kafka.topic": "dlq" }],
    input: ["kafka.delay_response", { "kafka.api": "Fetch", "kafka.topic": "input" }],
    store: ["network.down", { "network.link": "store" }],
    registry: ["registry.error", {}],
  }[kind];
  if (likely && !breaking.pick(...likely)) answer("That fault is not available in this drill.", true);
}

// ---- What is shown --------------------------------------------------------------------------------------------------

const drawing = new Drawing($("drawing"), pick);
const tiles = [
  new Tile($("tiles"), "Sent", "sent"),
  new Tile($("tiles"), "Processed", "processed"),
  new Tile($("tiles"), "Lag", "lag"),
  new Tile($("tiles"), "Retries in flight", "retries"),
  new Tile($("tiles"), "Dead letters", "dead"),
  new Tile($("tiles"), "Latency p99", "p99"),
];

const stages = {
  "set-up": "setting up",
  "warm-up": "warming up",
  open: "open",
  drain: "draining",
  judge: "judging",
  over: "over",
};
const upStates = ["starting", "running", "paused", "stopping"];
const may = (action) => (state ? (state.may || []).includes(action) : false);
const consumers = () => ((state && state.live && state.live.instances) || []).filter((i) => i.kind === "instance");
const running = () => consumers().filter((i) => ["starting", "running", "paused"].includes(i.status)).length;

// inForce are the faults that are broken now.
const inForce = () => ((state && state.faults) || []).filter((f) => f.healed_ns === undefined && !f.failed);

// marksOf tells which parts of the drawing a fault hits.
function marksOf(fault) {
  const words = fault.name, target = fault.target || "", kafka = (fault.spec && fault.spec.kafka) || {};
  const at = (...parts) => parts.map((part) => ({ part, words }));
  if (fault.kind === "kafka") {
    if (kafka.api === "Produce") return at("dead");
    if (kafka.api === "Fetch" || kafka.api === "ShareFetch") return at("fetch");
    if (["Metadata", "FindCoordinator", "InitProducerId"].includes(kafka.api)) return at("input");
    return at("commit");
  }
  if (fault.kind === "store") return at("store");
  if (target === "registry") return at("registry");
  if (fault.kind === "downstream") return at("downstream");
  if (target.startsWith("downstream")) return at("call");
  if (target === "brokers") return at("fetch", "commit", "dead");
  if (target === "dlq") return at("dead");
  if (target === "store") return at("store");
  if (/^broker \d+$/.test(target)) return at(target);
  if (/^instance \d+$/.test(target)) return at(target);
  if (target === "every instance" || target === "instances") return consumers().map((i) => ({ part: i.name, words }));
  if (target === "coordinator") return at("commit");
  return /store|worker|router/.test(target) ? at("store") : at("input");
}

let usualLag = 0;
function model() {
  const live = state.live;
  const parts = live.partitions || [];
  const input = parts.length ? parts[0].topic : "input";
  const all = consumers();
  usualLag = usualLag ? usualLag * 0.995 + 0.005 * live.lag : live.lag;
  const store = live.store;
  const count = store ? Object.values(store.by_state || {}).reduce((a, b) => a + b, 0) : 0;
  return {
    may: may("break"), processed: live.processed_rate,
    workload: { rate: live.sent_rate, words: short(live.totals.sent) + " sent" },
    input: {
      name: new Set(parts.map((p) => p.topic)).size > 1 ? "input topics" : input,
      lag: live.lag,
      usual: Math.max(1, usualLag / Math.max(1, parts.length)),
      lanes: parts.map((p) => ({ name: p.partition, lag: p.lag })),
    },
    dlq: { count: live.dead_letters, rate: live.dead_letter_rate },
    downstream: { rate: live.attempt_rate, words: "attempts" },
    store: store
      ? {
          count,
          words: Object.entries(store.by_state || {})
            .map(([name, n]) => `${n} ${name.toLowerCase().replaceAll("_", " ")}`)
            .slice(0, 2)
            .join(", "),
        }
      : null,
    registry: live.registry || null,
    brokers, retries: live.retries_in_flight,
    instances: all.map((i) => {
      const up = upStates.includes(i.status), plain = i.status === "running";
      const work = `${i.partitions} part. · ${short(i.attempt_rate)}/s`;
      return {
        id: i.name,
        name: (i.node ? i.node + " " : "") + i.name,
        up,
        gone: i.status === "stopped" && state.stage !== "open",
        down: !up && !(i.status === "stopped" && state.stage !== "open"),
        paused: i.status === "paused",
        away: i.status === "starting" || i.status === "stopping",
        words: plain ? work : i.status,
        brief: plain ? short(i.attempt_rate) + "/s" : i.status,
        fetch: i.fetch_rate,
        attempts: i.attempt_rate,
      };
    }),
    marks: inForce().flatMap(marksOf),
  };
}

// Brokers are known from what can be broken of them; who may break nothing sees Kafka as one thing.
let brokers = [];

function showTop() {
  if (state.scenario) {
    $("scenario").textContent = state.scenario;
    document.title = "Drill: " + state.scenario + " · dlqbench";
  }
  const stage = $("stage");
  stage.textContent = stages[state.stage] || state.stage;
  stage.dataset.stage = state.stage;
  const at = seconds(state.at_ns), until = seconds(state.until_ns);
  $("clock").textContent = state.stage === "over" ? "ended" : clock(at) + (until > 0 ? " / " + clock(until) : "");
  $("progress").value = state.stage === "over" ? 1 : until > 0 ? Math.max(0, Math.min(1, at / until)) : 0;
  for (const part of document.querySelectorAll("[data-may]")) part.hidden = !may(part.dataset.may);
  $("unbreakable").hidden = !state.unbreakable || state.stage === "over";
  $("unbreakable-why").textContent = state.unbreakable || "";
  $("heal-all").querySelector("button").disabled = state.stage === "over";
}

function showFigures() {
  const live = state.live, p = charts.points;
  const q = live.latency.success;
  tiles[0].show(short(live.sent_rate), "/s", p);
  tiles[1].show(short(live.processed_rate), "/s", p);
  tiles[2].show(short(live.lag), "", p, live.lag > 50 && live.lag > 5 * Math.max(1, usualLag));
  tiles[3].show(short(live.retries_in_flight), "", p);
  tiles[4].show(
    short(live.dead_letters),
    live.dead_letter_rate >= 0.05 ? "+" + short(live.dead_letter_rate) + "/s" : "",
    p,
  );
  tiles[5].show(q.count ? ms(q.p99_ns).split(" ")[0] : "–", q.count ? ms(q.p99_ns).split(" ")[1] : "", p);
}

// keep makes the list have one item for each thing, and leaves those that stay where they are, so that the focus stays,
// too.
function keep(list, things, id, make, update) {
  const had = new Map([...list.children].map((item) => [item.dataset.id, item]));
  let before = null;
  for (const thing of things) {
    const name = id(thing);
    let item = had.get(name);
    if (item) had.delete(name);
    else {
      item = make(thing);
      item.dataset.id = name;
    }
    if ((before ? before.nextElementSibling : list.firstElementChild) !== item)
      list.insertBefore(item, before ? before.nextElementSibling : list.firstElementChild);
    update(item, thing);
    before = item;
  }
  for (const item of had.values()) item.remove();
}

function put(item, selector, words) {
  const part = item.querySelector(selector);
  if (part.textContent !== words) part.textContent = words;
}

function showBroken() {
  const now = inForce();
  $("broken-count").textContent = now.length;
  $("broken-count").classList.toggle("some", now.length > 0);
  $("broken-none").hidden = now.length > 0;
  if (role === "responder")
    $("broken-none").textContent = "None of yours. Faults of others are not shown to the responder.";
  keep(
    $("broken"),
    now,
    (f) => f.id,
    (f) => {
      const item = element("li");
      element("span", f.name, item, "name");
      const heal = element("button", "Heal", item, "small");
      heal.type = "button";
      heal.setAttribute("aria-label", "Heal " + f.name);
      heal.addEventListener("click", () => act("heal", { fault: f.id }, heal));
      element("span", "", item, "about");
      return item;
    },
    (item, f) => {
      item.querySelector("button").hidden = !may("heal");
      const since = Math.max(0, state.at_ns - f.injected_ns);
      // Some faults count what they did only when they are healed: that nothing is counted yet says nothing.
      const live = ((state.live && state.live.active_faults) || []).find((a) => a.name === f.name);
      const effects = Math.max(f.effects, live ? live.effects : 0);
      const noticed = f.to_notice
        ? f.noticed_ns !== undefined
          ? ", noticed after " + long(f.noticed_ns - f.injected_ns)
          : ", not noticed yet"
        : "";
      put(
        item,
        ".about",
        `${f.what}. For ${clock(seconds(since))}` +
          (effects > 0 ? ", took effect " + effects.toLocaleString("en-US") + "×" : "") +
          noticed,
      );
    },
  );
}

function showPeople() {
  const all = state.participants || [];
  $("people-count").textContent = all.length;
  keep($("people"), all, (p) => p.role + " " + (p.name || ""), () => element("li", "", null, "u"), (item, p) => {
    const words = (p.name || "unnamed") + ", " + p.role;
    if (item.textContent !== words) item.textContent = words;
  });
}

function showProcesses() {
  const all = state.live.instances || [];
  $("scale-count").textContent = running();
  const [less, more] = $("scale").querySelectorAll("button");
  less.disabled = running() <= 1;
  more.disabled = running() >= state.instances;
  keep(
    $("processes"),
    all,
    (i) => i.name + (i.node || ""),
    (i) => {
      const item = element("li");
      element("i", "", item);
      const words = element("span", "", item, "state");
      element("b", (i.node ? i.node + " " : "") + i.name, words);
      element("small", "", words);
      if (i.kind === "instance")
        for (const [action, label] of [
          ["kill", "Kill"],
          ["pause", "Pause"],
          ["resume", "Resume"],
          ["restart", "Restart"],
        ]) {
          const button = element("button", label, item, "small");
          button.type = "button";
          button.dataset.action = action;
          button.setAttribute("aria-label", label + " " + i.name);
          button.addEventListener("click", () => act(action, { instance: i.number }, button));
        }
      return item;
    },
    (item, i) => {
      item.className = i.status;
      const up = i.status === "running" || i.status === "starting";
      put(item, "small", i.status === "running" ? `${i.partitions} part. · ${short(i.attempt_rate)}/s` : i.status);
      // A responder does not see what is paused: he may try to resume what looks as if it were running.
      const held = i.status === "paused",
        blind = role === "responder";
      const fits = {
        kill: up || held,
        pause: up && !blind,
        resume: held || (blind && up),
        restart: !held && i.status !== "starting" && i.status !== "stopping",
      };
      for (const button of item.querySelectorAll("button"))
        button.hidden = !may(button.dataset.action) || !fits[button.dataset.action];
    },
  );
}

const people = [
  "break",
  "heal",
  "heal-all",
  "kill",
  "pause",
  "resume",
  "restart",
  "scale",
  "replay",
  "notice",
  "note",
  "stop",
];

function logItem(line) {
  const item = element("li");
  item.dataset.action = line.action;
  element("time", moment(line.at_ns), item);
  element("span", { break: "inject", note: "decision" }[line.action] || line.action, item, "kind");
  const text = element("span", null, item, "text u");
  if (line.who && (line.who.name || line.who.role))
    element("span", (line.who.name || line.who.role) + ": ", text, "who u");
  text.append(line.text);
  return item;
}

const wanted = (line) => !$("log-hands").checked || people.includes(line.action);

function showLog() {
  $("log").replaceChildren(...lines.filter(wanted).reverse().map(logItem));
}

// Only what matters is read out, and not more often than one can listen.
let unspoken = [], speaking = 0;
function speak(words) {
  unspoken.push(words);
  if (speaking) return;
  speaking = setTimeout(() => {
    speaking = 0;
    $("spoken").textContent =
      unspoken.slice(-3).join(". ") + (unspoken.length > 3 ? `. And ${unspoken.length - 3} more events` : "");
    unspoken = [];
  }, 1500);
}

function addEvents(fresh, quiet) {
  for (const line of fresh) {
    if (lines.length && line.number <= lines[lines.length - 1].number) continue;
    lines.push(line);
    if (wanted(line)) $("log").prepend(logItem(line));
    if (!quiet && (people.includes(line.action) || line.action === "fault" || line.action === "phase"))
      speak(`${line.action}: ${line.text}`);
  }
  lines.splice(0, Math.max(0, lines.length - 500));
  while ($("log").childElementCount > 500) $("log").lastElementChild.remove();
}

function showOver() {
  const r = state.result;
  if (!r || !$("over").hidden) return;
  $("over").hidden = false;
  $("over").classList.add(r.verdict || "none");
  $("over-badge").textContent = r.verdict || "no verdict";
  $("over-word").textContent = state.ending ? "The drill is over: " + state.ending : "The drill is over";
  for (const reason of [...(r.reasons || []), ...(r.error ? [r.error] : [])].slice(0, 6))
    element("li", reason, $("over-reasons"), "u");
  for (const [name, words] of [
    ["debrief.html", "Debrief"],
    ["report.html", "Full report"],
    ["recorded.yaml", "Recorded scenario"],
    ["debrief.md", "Debrief as Markdown"],
  ]) {
    const link = element("a", words, $("over-links"));
    link.href = "files/" + name;
    link.target = "_blank";
    link.rel = "noopener";
  }
  if (r.replay) {
    $("over-replay").hidden = false;
    $("over-replay").querySelector("code").textContent = r.replay;
  }
  const f = r.figures;
  const figure = (label, words) => {
    const box = element("div", null, $("over-figures"));
    element("dt", label, box);
    element("dd", words, box);
  };
  figure("Noticed", `${f.noticed} of ${f.faults}`);
  const lifted = [
    [f.healed, "by hand"],
    [f.ended_alone, "by itself"],
    [f.lifted_at_end, "at the end of the load"],
  ].filter(([n]) => n > 0);
  figure("Lifted", lifted.map(([n, how]) => `${n} ${how}`).join(", ") || "–");
  figure("False alarms", String(f.false_alarms));
  figure("Median to notice", f.noticed ? long(f.to_notice.median_ns) : "–");
  figure("Median to heal", f.healed ? long(f.to_heal.median_ns) : "–");
  figure("Median to drain", f.drained ? long(f.to_drain.median_ns) : "–");
  figure("Longest to drain", f.drained ? long(f.to_drain.max_ns) : "–");
  faultTable();
  $("over").scrollIntoView({ block: "start" });
}

function faultTable() {
  if (!state.faults || !state.faults.length) return;
  const table = element("table", null, $("over-faults"));
  const head = element("tr", null, element("thead", null, table));
  for (const words of ["Fault", "Injected at", "Noticed", "Lifted", "Drained after", "Effects"])
    element("th", words, head).scope = "col";
  const body = element("tbody", null, table);
  for (const f of state.faults) {
    const row = element("tr", null, body);
    const what = element("td", `${f.name} · ${f.what}`, row, "u");
    if (f.idle) element("small", "It did nothing: " + f.idle, what, "idle u");
    element("td", clock(seconds(f.injected_ns)), row);
    const counts = f.to_notice && !f.idle && !f.failed,
      by = (who) => (who ? ", " + (who.name || who.role) : "");
    element(
      "td",
      !counts
        ? "does not count"
        : f.noticed_ns !== undefined
          ? "after " + long(f.noticed_ns - f.injected_ns) + by(f.noticed_by)
          : "never",
      row,
      "u",
    );
    element(
      "td",
      f.healed_ns !== undefined
        ? "after " + long(f.healed_ns - f.injected_ns) + ", " + f.lifted + by(f.healed_by)
        : f.failed
          ? "failed"
          : "–",
      row,
      "u",
    );
    element(
      "td",
      f.drained_ns !== undefined && f.healed_ns !== undefined ? long(f.drained_ns - f.healed_ns) : "–",
      row,
    );
    element("td", f.idle ? "none" : f.effects.toLocaleString("en-US"), row, f.idle ? "idle" : "");
  }
}

function describe() {
  const down = consumers().filter((i) => !upStates.includes(i.status)).length,
    live = state.live;
  const faults = inForce().map((f) => f.name).join(", ") || "nothing";
  return (
    `${consumers().length} instances, ${down} of them down; ${live.lag} records behind; ` +
    `${live.dead_letters} dead letters; broken now: ${faults}.`
  );
}

// still is the last state of a run that has ended: its totals stay, nothing moves any more.
function still(live) {
  const instances = (live.instances || []).map((i) => Object.assign({}, i, { fetch_rate: 0, attempt_rate: 0 }));
  return Object.assign({}, live, { sent_rate: 0, processed_rate: 0, attempt_rate: 0, dead_letter_rate: 0, instances });
}

function show(frame) {
  state = frame;
  const ended = state.stage === "over" || state.stage === "judge";
  if (ended && state.live) state.live = still(state.live);
  document.body.classList.toggle("done", state.stage === "over");
  showTop();
  showPeople();
  showBroken();
  if (state.live) {
    charts.show(
      (state.faults || [])
        .filter((f) => !f.failed)
        .map((f) => [seconds(f.injected_ns), f.healed_ns === undefined ? null : seconds(f.healed_ns)]),
    );
    const l = state.live;
    if (!ended) {
      charts.push([
        seconds(state.at_ns),
        l.sent_rate,
        l.processed_rate,
        l.dead_letter_rate,
        l.lag,
        l.retries_in_flight,
        l.latency.success.p50_ns / 1e6,
        l.latency.success.p99_ns / 1e6,
      ]);
    }
    showFigures();
    drawing.show(model());
    showProcesses();
    $("drawing-words").textContent = describe();
  }
  showOver();
}

// ---- The connection -------------------------------------------------------------------------------------------------

let source = null, heard = 0, lostAt = 0, wait = 1000;

function linked(how) {
  const box = $("link");
  box.dataset.state = how;
  box.querySelector("span").textContent = { live: "live", lost: "lost", wait: "connecting" }[how];
}

function lose() {
  if (!lostAt) lostAt = Date.now();
  const calm = state && state.stage === "over";
  linked(calm ? "wait" : "lost");
  if (calm) $("link").querySelector("span").textContent = "page closed";
  const box = $("lost");
  box.hidden = calm;
  if (!box.firstChild) {
    element("span", "", box);
    element(
      "small",
      "If nobody looks at it any more, the drill heals everything after a while and ends. " +
        "Ctrl-C in its terminal does so at once.",
      box,
    );
  }
  const ago = Math.round((Date.now() - lostAt) / 1000);
  box.firstChild.textContent = `Connection lost ${ago} s ago: what you see is old. Reconnecting …`;
}

function found() {
  heard = Date.now();
  lostAt = 0;
  wait = 1000;
  $("lost").hidden = true;
  $("lost").replaceChildren();
  linked("live");
}

function connect() {
  if (source) source.close();
  heard = Date.now();
  source = new EventSource("events");
  // Another drill at the same address has other keys and another catalogue.
  source.addEventListener("drill", (e) => e.data === document.body.dataset.drill || location.reload());
  source.addEventListener("past", (e) => charts.replace(JSON.parse(e.data) || []));
  let first = true;
  source.addEventListener("events", (e) => {
    addEvents(JSON.parse(e.data), first);
    first = false;
  });
  source.addEventListener("frame", (e) => {
    const frame = JSON.parse(e.data);
    found();
    show(frame);
  });
  source.addEventListener("error", lose);
}

// A connection may be dead without an error: no frame for a while is as bad as one. A new one is tried at growing
// intervals.
setInterval(() => {
  const silent = Date.now() - heard;
  if (silent > 3500 || lostAt) lose();
  if (silent < 3500 + wait) return;
  wait = Math.min(wait * 1.5, 5000);
  connect();
}, 1000);

async function start() {
  wire();
  connect();
  if (role !== "injector") return;
  const response = await fetch("catalogue");
  if (!response.ok) return void answer("The list of faults can't be had: " + response.status, true);
  const catalogue = await response.json();
  const links = new Set(
    catalogue.flatMap((c) =>
      (c.parameters || []).filter((p) => p.path === "network.link").flatMap((p) => p.choices || []),
    ),
  );
  brokers = [...links]
    .filter((l) => /^broker \d+$/.test(l))
    .map((l) => Number(l.slice(7)))
    .sort((a, b) => a - b);
  // The list may come after the first frame, and the next one may be a while away.
  if (state && state.live) drawing.show(model());
  breaking.fill(catalogue);
}

start();
