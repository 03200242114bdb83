// Makes the controls of the report work: search, colours, copying, folding, printing. Everything that comes from the
// run is set as text, never as markup. The page keeps nothing: what was chosen is forgotten when it is closed.
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");

  // reveal opens whatever an element is folded into, and brings it into view.
  function reveal(target) {
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    for (const old of document.querySelectorAll(".hit")) old.classList.remove("hit");
    target.classList.add("hit");
    target.scrollIntoView({ block: "start" });
  }

  function followAnchors() {
    document.addEventListener("click", (event) => {
      const link = event.target.closest('a[href^="#"]');
      const target = link && document.getElementById(link.getAttribute("href").slice(1));
      if (!target || target.tagName !== "DETAILS") return;
      event.preventDefault();
      reveal(target);
      target.querySelector("summary").focus({ preventScroll: true });
    });
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") reveal(target);
  }

  // items are what can be found: traces, and the rows of the index.
  let items = null;
  function gather() {
    if (items) return;
    items = [];
    for (const e of document.querySelectorAll("[data-record]")) {
      const row = e.tagName !== "DETAILS";
      const head = row ? e : e.querySelector("summary");
      const lines = row ? "" : Array.from(e.querySelectorAll(".words"), (w) => w.textContent).join(" ");
      const d = e.dataset;
      items.push({
        element: e, row: row, data: d, title: row ? "" : head.querySelector("span").textContent,
        text: ((row ? e.textContent : head.textContent) + " " + lines + " " + d.id + " " + d.key).toLowerCase(),
      });
    }
  }

  // question takes a query apart: field:value pairs, and words that must all be there.
  function question(query) {
    const fields = [];
    const words = [];
    const parts = query
      .toLowerCase()
      .replace(/\b(record|key|partition|offset|id)\s*[:=]?\s+(?=\S)/g, "$1:")
      .split(/\s+/);
    for (const part of parts) {
      const pair = part.match(/^(record|key|partition|offset|id):(.+)$/);
      if (pair) fields.push([pair[1], pair[2]]);
      else if (part) words.push(part);
    }
    return { fields: fields, words: words };
  }

  function meets(item, asked) {
    for (const [field, value] of asked.fields) {
      const has = (item.data[field] || "").toLowerCase();
      if (field === "key" || field === "id" ? !has.includes(value) : has !== value) return false;
    }
    return asked.words.every((word) => item.text.includes(word));
  }

  // exact puts what is named by the query itself before what only mentions it.
  function exact(item, query) {
    const d = item.data;
    return [d.record, d.id, d.key].some((v) => v && v.toLowerCase() === query) ? 0 : item.row ? 2 : 1;
  }

  const shownHits = 60;

  function wireSearch() {
    const box = document.getElementById("search");
    if (!box) return; // only the report of a run has records to find
    const found = document.getElementById("found");
    const list = document.getElementById("hits");
    const count = document.getElementById("hit-count");
    let hits = [];

    function show() {
      const query = box.value.trim();
      list.replaceChildren();
      found.hidden = query === "";
      hits = [];
      if (query === "") {
        count.textContent = "";
        return;
      }
      gather();
      const asked = question(query);
      hits = items.filter((item) => meets(item, asked));
      hits.sort((a, b) => exact(a, query.toLowerCase()) - exact(b, query.toLowerCase()));
      count.textContent = hits.length === 0 ? "Nothing found" : hits.length === 1 ? "1 hit" : hits.length + " hits";
      if (hits.length > shownHits) count.textContent += ", the first " + shownHits + " are listed";
      for (const item of hits.slice(0, shownHits)) {
        const button = document.createElement("button");
        const d = item.data;
        button.type = "button";
        button.textContent = item.row ? "record " + (d.record || "–") : item.title;
        const about = document.createElement("small");
        about.textContent =
          [
            d.record && "record " + d.record,
            d.partition && "partition " + d.partition,
            d.offset && "offset " + d.offset,
            d.key,
            d.id,
          ]
            .filter(Boolean)
            .join(" · ") + (item.row ? (item.element.tagName === "TR" ? " · in the index" : " · in the ledger") : "");
        button.append(about);
        button.addEventListener("click", () => reveal(item.element));
        const line = document.createElement("li");
        line.append(button);
        list.append(line);
      }
    }

    function clear() {
      box.value = "";
      show();
    }

    box.addEventListener("input", show);
    document.getElementById("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (hits.length) reveal(hits[0].element);
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, textarea, select");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        box.focus();
        box.select();
      } else if (event.key === "Escape" && !found.hidden) {
        clear();
        if (typing !== box) box.focus();
      }
    });
  }

  function wireColours() {
    const button = document.getElementById("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const dark = () =>
      root.classList.contains("dark") ? true : root.classList.contains("light") ? false : system.matches;
    const tell = () => button.setAttribute("aria-pressed", String(dark()));
    button.addEventListener("click", () => {
      const next = dark() ? "light" : "dark";
      root.classList.remove("dark", "light");
      root.classList.add(next);
      tell();
      dispatchEvent(new Event("dlqbench:colours"));
    });
    system.addEventListener("change", tell);
    tell();
  }

  function wireCopies() {
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.addEventListener("click", async () => {
        const source = button.previousElementSibling;
        let done = true;
        try {
          await navigator.clipboard.writeText(source.textContent);
        } catch (refused) {
          // A page opened from a disk may not write the clipboard; then the text is selected for the reader's own copy
          // key.
          getSelection().selectAllChildren(source);
          done = document.execCommand("copy");
        }
        button.textContent = done ? "Copied" : "Selected";
        setTimeout(() => (button.textContent = "Copy"), 1600);
      });
    }
  }

  function wireFolding() {
    for (const button of document.querySelectorAll("[data-unfold]")) {
      const all = Array.from(
        document.getElementById(button.dataset.unfold).querySelectorAll("details:not(.plainform)"),
      );
      const tell = () => {
        const open = all.every((d) => d.open);
        button.setAttribute("aria-pressed", String(open));
        button.textContent = open ? "Fold all" : "Unfold all";
      };
      button.addEventListener("click", () => {
        const open = all.some((d) => !d.open);
        for (const d of all) d.open = open;
        tell();
      });
      tell();
    }
  }

  // For paper what is folded is opened, and folded again afterwards; but nothing that is spare, and of pieces of
  // evidence in a row no more than three.
  const printedInARow = 3;

  function before(details) {
    let n = 0;
    for (let e = details.previousElementSibling; e && e.classList.contains("evidence"); e = e.previousElementSibling)
      n++;
    return n;
  }

  function wirePrinting() {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = Array.from(document.querySelectorAll("details:not([open]):not(.plainform):not(.spare)"))
        .filter((d) => !d.closest(".spare") && (!d.classList.contains("evidence") || before(d) < printedInARow));
      for (const d of opened) d.open = true;
    });
    addEventListener("afterprint", () => {
      for (const d of opened) d.open = false;
      opened = [];
    });
  }

  wireCopies();
  wireFolding();
  wirePrinting();
  wireColours();
  wireSearch();
  followAnchors();
})();
