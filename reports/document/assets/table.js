// Filters the rows of tables, and compares two of them. Everything that comes from a run is set as text, never as
// markup.
(function () {
  "use strict";

  function element(tag, text, parent) {
    const e = document.createElement(tag);
    if (text) e.textContent = text;
    if (parent) parent.append(e);
    return e;
  }

  // labelled returns a control with its label.
  function labelled(tag, words, bar) {
    const label = element("label", words + " ", bar);
    return element(tag, "", label);
  }

  function wire(holder) {
    const rows = Array.from(holder.querySelectorAll("tbody tr"), (row) => ({
      row: row,
      text: row.textContent.toLowerCase(),
    }));
    const bar = document.createElement("form");
    bar.className = "filters";
    bar.setAttribute("role", "search");
    bar.setAttribute("aria-label", "Filter the table");
    bar.addEventListener("submit", (event) => event.preventDefault());
    const selects = holder.dataset.filters.trim().split(" ").map((name) => {
      const select = labelled("select", name, bar);
      const values = Array.from(new Set(rows.map((r) => r.row.dataset[name]).filter(Boolean))).sort();
      element("option", "all", select).value = "";
      for (const value of values) element("option", value, select).value = value;
      select.addEventListener("change", show);
      return { name: name, select: select };
    });
    const words = labelled("input", "text", bar);
    words.type = "search";
    words.addEventListener("input", show);
    const count = element("output", "", bar);
    count.setAttribute("role", "status");
    holder.before(bar);

    function show() {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let n = 0;
      for (const { row, text } of rows) {
        const fits =
          selects.every((s) => !s.select.value || row.dataset[s.name] === s.select.value) &&
          wanted.every((w) => text.includes(w));
        row.hidden = !fits;
        if (fits) n++;
      }
      count.textContent = n === rows.length ? n + " shown" : n + " of " + rows.length + " shown";
    }

    if (holder.dataset.pickTwo) pickTwo(holder, bar, rows);
    show();
  }

  // pickTwo lets the reader choose two rows, and leads to their comparison: the lower one, which is older, is before.
  function pickTwo(holder, bar, rows) {
    const go = element("button", "Compare", bar);
    go.type = "button";
    const chosen = () => rows.filter((r) => r.box && r.box.checked).map((r) => r.row.dataset.pick);
    const tell = () => {
      const n = chosen().length;
      go.setAttribute("aria-disabled", String(n !== 2));
      go.textContent = n === 2 ? "Compare these two" : n > 2 ? "Compare: choose two, not " + n : "Compare: choose two";
    };
    for (const one of rows) {
      if (!one.row.dataset.pick) continue;
      one.box = document.createElement("input");
      one.box.type = "checkbox";
      one.box.setAttribute("aria-label", "Compare " + one.row.dataset.pick);
      one.box.addEventListener("change", tell);
      one.row.querySelector("th").prepend(one.box, " ");
    }
    go.addEventListener("click", () => {
      const [after, before] = chosen();
      if (chosen().length === 2)
        location.href = holder.dataset.pickTwo + "?" + new URLSearchParams({ before: before, after: after });
    });
    tell();
  }

  for (const holder of document.querySelectorAll("[data-filters]")) wire(holder);
})();
