// The form to break things by, made from the catalogue: every fault brings its parameters, their types, choices and
// defaults.

const patterns = {
  duration: ["([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+|0", "a duration such as 250ms, 5s or 1m30s"],
  percent: ["[0-9]+(\\.[0-9]+)?%", "a percentage such as 20%"],
  size: ["[0-9]+(B|KiB|MiB)?", "a size such as 512B or 64KiB"],
  rate: ["[0-9]+(\\.[0-9]+)?/(s|m|h)", "a rate such as 50/s"],
};

function element(tag, attributes, parent) {
  const e = document.createElement(tag);
  Object.assign(e, attributes);
  if (parent) parent.append(e);
  return e;
}

const get = (from, path) =>
  path.split(".").reduce((v, key) => (v === undefined || v === null ? undefined : v[key]), from);

function set(into, path, value) {
  const keys = path.split("."), last = keys.pop();
  for (const key of keys) into = into[key] = typeof into[key] === "object" && into[key] ? into[key] : {};
  if (value === undefined) delete into[last];
  else into[last] = value;
}

export class BreakForm {
  // submit gets a spec; it is called when the form is sent.
  constructor(form, submit) {
    this.form = form;
    this.select = form.querySelector("#fault");
    this.first = form.querySelector("#parameters");
    this.more = form.querySelector("#more");
    this.rest = form.querySelector("#more-parameters");
    this.inputs = [];
    this.select.addEventListener("change", () => this.choose());
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      if (this.chosen) submit(this.spec(), this.chosen);
    });
  }

  fill(catalogue) {
    this.catalogue = catalogue;
    this.select.replaceChildren();
    const groups = {};
    for (const one of catalogue) {
      groups[one.kind] ||= element("optgroup", { label: one.kind }, this.select);
      const words =
        one.kind + ": " + one.name.slice(one.kind.length + 1).replaceAll("_", " ") + (one.refused ? " (not here)" : "");
      element(
        "option",
        { value: one.name, textContent: words, disabled: Boolean(one.refused), title: one.refused || one.does },
        groups[one.kind],
      );
    }
    const usable =
      catalogue.find((one) => !one.refused && one.name === "downstream.outage") ||
      catalogue.find((one) => !one.refused);
    if (usable) this.select.value = usable.name;
    this.choose();
  }

  // pick chooses a fault and presets some of its parameters.
  pick(name, values) {
    const one = (this.catalogue || []).find((c) => c.name === name && !c.refused);
    if (!one) return false;
    this.select.value = name;
    this.choose();
    for (const { parameter, input } of this.inputs) {
      if (values[parameter.path] !== undefined) input.value = values[parameter.path];
    }
    this.form.scrollIntoView({ block: "nearest" });
    this.select.focus();
    return true;
  }

  choose() {
    this.chosen = (this.catalogue || []).find((c) => c.name === this.select.value);
    this.inputs = [];
    this.first.replaceChildren();
    this.rest.replaceChildren();
    if (!this.chosen) return;
    this.form.querySelector("#fault-summary").textContent = this.chosen.summary;
    this.form.querySelector("#fault-does").textContent = this.chosen.does;
    this.form.querySelector("#fault-shows").textContent = this.chosen.shows;
    for (const parameter of this.chosen.parameters) {
      if (parameter.fixed) continue;
      const given = parameter.default !== undefined && parameter.default !== null;
      this.add(parameter, parameter.required || given || parameter.path === "for" ? this.first : this.rest);
    }
    this.more.hidden = this.rest.childElementCount === 0;
  }

  add(parameter, place) {
    const id = "p-" + parameter.path.replaceAll(".", "-");
    const words = parameter.path.slice(parameter.path.lastIndexOf(".") + 1).replaceAll("_", " ");
    const label = element("label", { htmlFor: id }, place);
    const value = parameter.default ?? "";
    if (parameter.type === "flag") {
      label.className = "check";
      const input = element("input", { id, type: "checkbox", checked: value === true }, label);
      label.append(" " + words);
      this.inputs.push({ parameter, input });
      return;
    }
    label.textContent = words;
    let input;
    if (parameter.type === "choice") {
      input = element("select", { id }, label);
      if (!parameter.required) element("option", { value: "", textContent: "–" }, input);
      for (const choice of parameter.choices || []) element("option", { value: choice, textContent: choice }, input);
    } else {
      input = element(
        "input",
        {
          id,
          type: parameter.type === "number" ? "number" : "text",
          autocomplete: "off",
          required: Boolean(parameter.required),
        },
        label,
      );
      if (parameter.type === "number") input.min = String(parameter.min || 0);
      const [pattern, title] = patterns[parameter.type] || [];
      if (pattern) Object.assign(input, { pattern, title });
      if (parameter.choices && parameter.choices.length) {
        const list = element("datalist", { id: id + "-list" }, label);
        for (const choice of parameter.choices) element("option", { value: choice }, list);
        input.setAttribute("list", list.id);
      }
    }
    input.value = String(value);
    if (parameter.path === "for") input.placeholder = "until healed";
    this.inputs.push({ parameter, input });
  }

  // spec is the fault as a scenario writes it.
  spec() {
    const spec = structuredClone(this.chosen.spec || {});
    for (const { parameter, input } of this.inputs) {
      if (parameter.type === "flag") {
        set(spec, parameter.path, input.checked || get(spec, parameter.path) !== undefined ? input.checked : undefined);
        continue;
      }
      const text = input.value.trim();
      set(spec, parameter.path, text === "" ? undefined : parameter.type === "number" ? Number(text) : text);
    }
    return spec;
  }
}
