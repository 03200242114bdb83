// Makes the controls of a bench's report work: colours, which latency is drawn, which curves are shown, folds that a link leads into, printing. All that is
// drawn is in the page already.
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");

  function wireColours() {
    const button = document.getElementById("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => (root.classList.contains("dark") ? true : root.classList.contains("light") ? false : system.matches);
    const tell = () => button.setAttribute("aria-pressed", String(dark()));
    button.addEventListener("click", () => {
      const next = dark() ? "light" : "dark";
      root.classList.remove("dark", "light");
      root.classList.add(next);
      tell();
    });
    system.addEventListener("change", tell);
    tell();
  }

  // One latency is shown at a time; without this script all are.
  function wireChoice() {
    const choice = document.getElementById("which");
    if (!choice) return;
    const show = () => {
      for (const figure of document.querySelectorAll(".curves")) figure.classList.toggle("away", figure.id !== "curves-" + choice.value);
    };
    choice.addEventListener("change", show);
    show();
  }

  // A click on a cell's name hides its curve in all plots or shows it again; to point at it lifts it out of the others.
  function wireCurves() {
    const each = (number, act) => {
      for (const curve of document.querySelectorAll(".curve")) act(curve, curve.dataset.cell === number);
    };
    for (const button of document.querySelectorAll("[data-curve]")) {
      const number = button.dataset.curve;
      const lift = (on) => each(number, (curve, its) => {
        curve.classList.toggle("strong", on && its);
        curve.classList.toggle("weak", on && !its);
      });
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        for (const same of document.querySelectorAll('[data-curve="' + number + '"]')) same.setAttribute("aria-pressed", String(shown));
        each(number, (curve, its) => { if (its) curve.classList.toggle("off", !shown); });
      });
      button.addEventListener("mouseenter", () => lift(true));
      button.addEventListener("mouseleave", () => lift(false));
      button.addEventListener("focus", () => lift(true));
      button.addEventListener("blur", () => lift(false));
    }
  }

  // A link to a cell opens what it leads to.
  function wireLinks() {
    const open = () => {
      const target = location.hash && document.getElementById(location.hash.slice(1));
      if (target && target.tagName === "DETAILS") target.open = true;
    };
    addEventListener("hashchange", open);
    open();
  }

  // For paper everything is opened, and folded again afterwards.
  function wirePrinting() {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = Array.from(document.querySelectorAll("details:not([open])"));
      for (const d of opened) d.open = true;
    });
    addEventListener("afterprint", () => {
      for (const d of opened) d.open = false;
      opened = [];
    });
  }

  wireColours();
  wireChoice();
  wireCurves();
  wireLinks();
  wirePrinting();
})();
