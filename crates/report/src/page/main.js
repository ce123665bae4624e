// Puts the page together: data, tabs, filters, keyboard, theme, and the place in the address.

const filters = { text: "", system: "", judge: "", doc: "", category: "", severity: "", status: "", order: "input", against: null };

/** The place in the address: the segment that is open, or none. It can be sent, and opens the segment again. */
function address(row) {
  history.replaceState(null, "", row === null ? location.href.split("#")[0] : `#row=${row}`);
}

function tabs(opened) {
  const all = [...document.querySelectorAll("[role=tab]")];
  const open = (tab, focus) => {
    for (const one of all) {
      const on = one === tab;
      one.setAttribute("aria-selected", String(on));
      one.tabIndex = on ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !on;
    }
    if (focus) tab.focus();
    closeTip();
    opened(tab.id.slice("tab-".length));
  };
  all.forEach((tab, at) => {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) open(all[(at + step + all.length) % all.length], true);
    });
  });
  return (name) => open(document.getElementById(`tab-${name}`));
}

function options(id, first, values) {
  const select = document.getElementById(id);
  select.replaceChildren(...[["", first], ...values].filter(([, name]) => name !== null).map(([value, name]) => el("option", { value }, name)));
}

function prepare(data) {
  const pairs = data.pairs.map((pair, i) => [i, pair.join("–")]), domains = [...new Set(data.domains)].filter(Boolean).sort();
  for (const [id, all] of [["f-pair", pairs], ["f-domain", domains.map((name) => [name, name])]]) {
    options(id, "all", all);
    document.getElementById(id).parentElement.hidden = all.length < 2;
  }
  options("f-system", "all", data.systems.map((name, i) => [i, name]));
  options("f-judge", "all", data.judges.map((judge, i) => [i, judge.name]));
  options("f-category", "all", data.categories.map((_, i) => [i, categoryName(data, i)]).sort((a, b) => a[1].localeCompare(b[1])));
  options("f-severity", "all", SEVERITIES.map((name, i) => [i, name]));
  options("f-status", "all", data.statuses.map((name, i) => [i, name]));
  const orders = [["worst", "worst first"], ["difference", "systems differ most"], ["disagreement", data.judges.length > 1 ? "judges disagree most" : null]];
  options("f-order", "as in the input", orders);
  document.getElementById("docs").append(...data.docs.slice(0, 2000).map((name) => el("option", { value: name })));
}

function readFilters() {
  const value = (id) => document.getElementById(id).value;
  const index = (id) => value(id) === "" ? "" : Number(value(id));
  const order = value("f-order") || "input";
  Object.assign(filters, {
    text: value("f-text").trim(), system: index("f-system"), judge: index("f-judge"), pair: index("f-pair"), domain: value("f-domain"), doc: value("f-doc").trim(),
    category: index("f-category"), severity: index("f-severity"), status: index("f-status"), order,
    against: order === "difference" ? filters.against : null,
  });
}

async function main() {
  const status = document.getElementById("status");
  if (!("DecompressionStream" in window)) { status.textContent = "This browser is too old to read the report: it lacks DecompressionStream."; return; }
  const data = await embedded("data");
  data.apart = data.judges.length > 1 ? disagreements(data) : new Float32Array(data.rows.length);
  const asked = location.hash;
  const isOpen = () => !document.getElementById("view-segments").hidden;
  const list = new List(data, (index) => { detail(data, index); if (isOpen()) address(index); });
  const open = tabs((view) => address(view === "segments" ? list.selected : null));
  const count = document.getElementById("f-count");
  const apply = () => {
    readFilters();
    const shown = filtered(data, filters);
    document.getElementById("whose").textContent = whose(data);
    const between = filters.against ? `, ${filters.against.join(" against ")}` : "";
    document.getElementById("f-said").textContent = `${shown.length.toLocaleString("en")} of ${plural(data.rows.length, data.unit)}`;
    count.textContent = `${shown.length.toLocaleString("en")} of ${plural(data.rows.length, data.unit)}${between}`;
    list.show(shown);
    const at = shown.indexOf(list.selected);
    if (shown.length === 0) document.getElementById("detail").replaceChildren(el("p", { class: "soft" }, `No ${data.unit} fits the filters.`));
    else list.select(at >= 0 ? at : 0);
  };
  prepare(data);
  overview(data, (choice) => {
    document.getElementById("filters").reset();
    const set = (id, value) => { if (value !== undefined) document.getElementById(id).value = value; };
    set("f-system", choice.system === undefined ? undefined : data.systems.indexOf(choice.system));
    set("f-category", choice.category);
    set("f-pair", data.pairs.length > 1 ? data.pairs.findIndex((pair) => pair.join("–") === choice.pair) : undefined);
    set("f-domain", choice.domain ?? undefined);
    set("f-judge", data.judges.length > 1 ? choice.judge : undefined);
    filters.against = choice.against || null;
    if (choice.against) set("f-order", "difference");
    open("segments");
    apply();
  });
  wire(data, list, open, apply);
  fold();
  status.textContent = "";
  document.body.dataset.ready = "true";
  apply();
  const follow = (hash) => {
    const row = Number(/^#row=(\d+)$/.exec(hash)?.[1] ?? NaN);
    if (!data.rows[row]) return;
    if (!list.shown.includes(row)) { document.getElementById("filters").reset(); apply(); }
    open("segments");
    document.body.classList.add("reading");
    list.select(list.shown.indexOf(row));
  };
  follow(asked);
  addEventListener("hashchange", () => follow(location.hash));
}

/** Filters are folded where there is no room for them. */
function fold() {
  const narrow = matchMedia("(max-width: 800px)"), box = document.getElementById("fold");
  const set = () => { box.open = !narrow.matches; };
  narrow.addEventListener("change", set);
  set();
}

function wire(data, list, open, apply) {
  const form = document.getElementById("filters"), search = document.getElementById("f-text");
  let waiting = 0;
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 150); });
  form.addEventListener("reset", () => setTimeout(() => { filters.against = null; apply(); }));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("tab-segments").addEventListener("click", () => list.draw());
  const keys = document.getElementById("keys"), help = document.getElementById("help");
  const toggle = () => { keys.hidden = !keys.hidden; help.setAttribute("aria-expanded", String(!keys.hidden)); };
  help.addEventListener("click", toggle);
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
  document.addEventListener("click", (event) => { if (!event.target.closest("#tip, mark")) closeTip(); });
  const hasError = (index) => data.rows[index].cells.some((cell) => cell.verdicts.some((v) => v && v.errors.length > 0));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { closeTip(); if (document.activeElement === search) { search.value = ""; apply(); search.blur(); } return; }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName)) return;
    const act = {
      1: () => open("overview"), 2: () => { open("segments"); list.draw(); }, j: () => list.move(1), k: () => list.move(-1),
      e: () => list.next(hasError), d: () => list.next((index) => data.apart[index] >= .3), "?": toggle,
      "/": () => { open("segments"); search.focus(); },
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
}

main().catch((error) => { document.getElementById("status").textContent = `The report cannot be read: ${error.message}`; });
