// The list of segments: filters, order, and a scroller that keeps only the visible rows in the page.

const HEIGHT = 80;
const EXTRA = 8;

class List {
  constructor(data, choose) {
    Object.assign(this, { data, choose, shown: [], selected: null });
    this.box = document.getElementById("list");
    this.runway = document.getElementById("runway");
    this.rows = new Map();
    this.box.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()), { passive: true });
    this.box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  show(indices) {
    this.shown = indices;
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.runway.style.height = `${indices.length * HEIGHT}px`;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - EXTRA);
    const last = Math.min(this.shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + EXTRA);
    for (const [at, row] of this.rows) if (at < first || at >= last) { row.remove(); this.rows.delete(at); }
    for (let at = first; at < last; at++) {
      if (!this.rows.has(at)) {
        const row = this.row(at);
        this.rows.set(at, row);
        this.runway.append(row);
      }
    }
  }

  row(at) {
    const { data } = this, index = this.shown[at], row = data.rows[index];
    const chips = badges(data, row);
    const pair = data.pairs[row.pair];
    return el("div", {
      class: "row", role: "option", id: `row-${index}`, style: `top:${at * HEIGHT}px`, "aria-selected": String(index === this.selected),
      "aria-posinset": at + 1, "aria-setsize": this.shown.length, on: { click: () => { document.body.classList.add("reading"); this.select(at); } },
    }, el("div", { class: "place" }, el("span", {}, place(data, row, true))),
    el("div", { class: "text", ...language(pair[0]) }, row.source.slice(0, 400)), el("div", { class: "chips" }, chips));
  }

  select(at, focus) {
    if (at < 0 || at >= this.shown.length) return;
    const before = this.rows.get(this.shown.indexOf(this.selected));
    if (before) before.setAttribute("aria-selected", "false");
    this.selected = this.shown[at];
    const top = at * HEIGHT, { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + HEIGHT > scrollTop + clientHeight) this.box.scrollTop = top - clientHeight / 2 + HEIGHT / 2;
    this.draw();
    this.rows.get(at)?.setAttribute("aria-selected", "true");
    this.box.setAttribute("aria-activedescendant", `row-${this.selected}`);
    if (focus) this.box.focus();
    this.choose(this.selected);
  }

  move(step) {
    const at = this.shown.indexOf(this.selected);
    this.select(at < 0 ? 0 : Math.max(0, Math.min(this.shown.length - 1, at + step)));
  }

  /** Goes to the next row, after the one chosen, that fits. */
  next(fits) {
    const start = this.shown.indexOf(this.selected) + 1;
    const at = this.shown.findIndex((index, i) => i >= start && fits(index));
    if (at >= 0) this.select(at);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / HEIGHT) - 1);
    if (event.key === "Enter") { document.body.classList.add("reading"); document.getElementById("detail").focus(); return; }
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const step = steps[event.key];
    if (Number.isFinite(step)) this.move(step);
    else this.select(step < 0 ? 0 : this.shown.length - 1);
  }
}

/** Whose errors the badges count: the judge that is filtered for, or else the first one, and beside it the first raters. */
function counted(data) {
  if (filters.judge !== "") return [filters.judge];
  return [false, true].map((human) => data.judges.findIndex((judge) => judge.human === human)).filter((judge) => judge >= 0);
}

/** What the badges are of, where there is a choice. */
function whose(data) {
  const [judge, ...beside] = counted(data);
  const others = data.judges.length - 1 - beside.length;
  return others > 0 ? `${data.judges[judge].name}${filters.judge === "" ? " (choose another under Judge)" : ""}: ` : "";
}

/** What one judge, and apart from it the raters, found in the translation of each system: how many errors of each
 * severity. Of more systems than there is room for, all together. */
function badges(data, row) {
  const cells = row.cells, found = [];
  const of = (cells, judge) => {
    const counts = [0, 0, 0, 0];
    let missing = 0, warned = 0;
    for (const cell of cells) {
      const verdict = cell.verdicts[judge];
      if (!verdict) continue;
      if (verdict.score === null) missing++;
      if (verdict.warning) warned++;
      for (const error of verdict.errors) counts[error.severity]++;
    }
    return { counts, missing, warned };
  };
  const badge = ({ counts, missing, warned }, name, judge) => {
    const { human } = data.judges[judge];
    const all = counts.reduce((a, b) => a + b, 0), worst = counts.findIndex((n) => n > 0);
    if (all + missing + warned === 0) return;
    const said = [...counts.map((n, s) => n ? plural(n, `${SEVERITIES[s]} error`) : ""), missing ? plural(missing, "missing verdict") : "", warned ? plural(warned, "warning") : ""];
    const title = `${name || "all systems"}, ${data.judges[judge].name}: ${said.filter(Boolean).join(", ")}`;
    const signs = [...counts.map((n, s) => n ? `${n}${"CMmn"[s]}` : ""), missing && !all ? "∅" : "", warned ? "!" : ""].filter(Boolean).join(" ");
    found.push(el("span", { class: `count ${all ? SEVERITIES[worst] : warned ? "major" : "neutral"}${human ? " human" : ""}`, title, "aria-label": title }, name ? el("i", {}, short(data, name)) : null, signs));
  };
  const shown = counted(data);
  for (const judge of shown) {
    if (cells.length * shown.length > BADGES) badge(of(cells, judge), null, judge);
    else for (const cell of cells) badge(of([cell], judge), data.systems.length > 1 ? data.systems[cell.system] : null, judge);
  }
  return found;
}

/** There is room for so many badges with names. */
const BADGES = 4;

/** So many letters of a name stand in a badge. */
const LABEL = 14;

/** The words of a system's name that tell it from the others, as many as there is room for; its whole name has the title. */
function short(data, name) {
  if (!data.labels) {
    const words = data.systems.map((system) => system.split(/(?<=[-_./ ])/));
    const same = (at) => words.every((each) => each.length > 1 && each.at(at) === words[0].at(at));
    let [begin, end] = [0, 0];
    const least = Math.min(...words.map((each) => each.length));
    while (words.length > 1 && begin < least - 1 && same(begin)) begin++;
    while (words.length > 1 && begin + end < least - 1 && same(-1 - end)) end++;
    const own = words.map((each) => each.slice(begin, each.length - end));
    const bare = (parts) => parts.join("").replace(/[-_./ ]+$/, "");
    const fits = (parts) => bare(parts).length <= LABEL;
    const first = (parts) => { let n = parts.length; while (n > 1 && !fits(parts.slice(0, n))) n--; return parts.slice(0, n); };
    const last = (parts) => { let n = parts.length; while (n > 1 && !fits(parts.slice(-n))) n--; return parts.slice(-n); };
    // Names that no few words tell apart stand there whole.
    const labels = [first, last, (parts) => parts].map((some) => own.map((parts) => bare(some(parts))));
    const chosen = labels.find((all) => new Set(all).size === all.length) ?? data.systems;
    data.labels = new Map(data.systems.map((system, at) => [system, chosen[at] || system]));
  }
  return data.labels.get(name);
}

function place(data, row, brief) {
  const doc = data.docs[row.doc], seg = row.seg;
  const pair = data.pairs.length > 1 ? `${data.pairs[row.pair].join("–")} · ` : "";
  if (seg === null) return `${pair}${doc}`;
  return `${pair}${doc ? `${doc} · ` : ""}segment ${seg + 1}${brief ? "" : ` (id ${seg})`}`;
}

/** Which rows fit the filters, in the order that is asked for. */
function filtered(data, filters) {
  const wanted = filters.text.toLocaleLowerCase();
  const fitsCell = (cell) => {
    if (filters.system !== "" && cell.system !== filters.system) return false;
    const verdicts = cell.verdicts.filter((verdict, judge) => verdict && (filters.judge === "" || judge === filters.judge));
    if (filters.status !== "" && !verdicts.some((v) => v.status === filters.status)) return false;
    if (filters.category !== "" || filters.severity !== "") {
      const fits = (e) => (filters.category === "" || e.category === filters.category) && (filters.severity === "" || e.severity === filters.severity);
      if (!verdicts.some((v) => v.errors.some(fits))) return false;
    }
    return true;
  };
  const says = (text) => text && text.toLocaleLowerCase().includes(wanted);
  const fitsText = (row, cell) => wanted === "" || says(row.source) || says(cell.hypothesis) ||
    cell.verdicts.some((v) => v && (says(v.reason) || v.errors.some((e) => says(e.explanation) || says(e.span))));
  const shown = [];
  data.rows.forEach((row, index) => {
    if (filters.pair !== "" && row.pair !== filters.pair) return;
    if (filters.domain !== "" && data.domains[row.doc] !== filters.domain) return;
    if (filters.doc !== "" && !data.docs[row.doc].includes(filters.doc)) return;
    if (row.cells.some((cell) => fitsCell(cell) && fitsText(row, cell))) shown.push(index);
  });
  return ordered(data, filters, shown);
}

function ordered(data, filters, shown) {
  const key = { worst: (i) => lowest(data.rows[i], filters), disagreement: (i) => -data.apart[i], difference: (i) => -difference(data, data.rows[i], filters) }[filters.order];
  if (!key) return shown;
  const keys = new Map(shown.map((i) => [i, key(i)]));
  return shown.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
}

function scoresOf(row, filters) {
  return row.cells.map((cell) => {
    const found = cell.verdicts.find((v, judge) => v && v.score !== null && (filters.judge === "" || judge === filters.judge));
    return { system: cell.system, score: found ? found.score : null };
  }).filter(({ score }) => score !== null);
}

function lowest(row, filters) {
  const scores = scoresOf(row, filters).filter(({ system }) => filters.system === "" || system === filters.system);
  return scores.length ? Math.min(...scores.map(({ score }) => score)) : Infinity;
}

/** How far two systems, or the best and the worst, are apart on a segment. */
function difference(data, row, filters) {
  let scores = scoresOf(row, filters);
  if (filters.against) scores = scores.filter(({ system }) => filters.against.includes(data.systems[system]));
  if (scores.length < 2) return -1;
  const values = scores.map(({ score }) => score);
  return Math.max(...values) - Math.min(...values);
}
