// The overview: systems with intervals and clusters, errors by category and severity, distributions, system against
// system. The statistics were computed by tribunal; only counts are made here.

function overview(data, go, chosen = { pair: data.pairs[0].join("–"), domain: null }) {
  const view = document.getElementById("view-overview");
  view.replaceChildren();
  const choose = (part) => overview(data, go, { ...chosen, ...part });
  const pairs = data.pairs.map((pair) => pair.join("–"));
  if (pairs.length > 1) view.append(parts("Language pair", pairs.map((pair) => [pair, pair]), chosen.pair, (pair) => choose({ pair, domain: null })));
  const isPair = (slice) => slice.pair.join("–") === chosen.pair;
  const domains = new Set(data.judges.flatMap((judge) => judge.slices.filter(isPair).map((slice) => slice.domain)).filter((domain) => domain !== null));
  if (domains.size > 1) view.append(parts("Domain", [["all", null], ...[...domains].sort().map((domain) => [domain, domain])], chosen.domain, (domain) => choose({ domain })));
  const isHere = (judge) => judge.slices.some(isPair);
  const agreements = data.agreements.filter((a) => a.pair === chosen.pair.replace("–", "-"));
  if (chosen.domain === null && agreements.length > 0) view.append(agreement(data, agreements));
  const open = (choice) => go({ ...choice, ...chosen });
  data.judges.forEach((judge, index) => {
    if (!isHere(judge)) return;
    const slice = judge.slices.find((one) => isPair(one) && one.domain === chosen.domain);
    const kind = judge.human ? "Human raters: " : data.judges.length > 1 ? "Judge: " : "";
    view.append(el("h2", {}, kind + judge.name));
    view.append(...cautions(judge));
    if (!slice) { view.append(el("p", { class: "soft" }, "No verdict here.")); return; }
    view.append(standings(data.unit, judge, slice, index, open));
    view.append(...judge.about.map((said) => el("p", { class: "soft about" }, ...quoted(`${said}.`))));
    const counts = count(data, index, chosen);
    view.append(el("div", { class: "columns" }, categories(data, counts, index, open), distribution(data, counts, slice)));
    if (slice.contests.length > 0) view.append(contests(data.unit, slice, index, open));
    if (judge.signature) view.append(el("p", { class: "signature" }, judge.signature));
    if (judge.citation) view.append(el("p", { class: "soft citation" }, ...quoted(`To cite: ${judge.citation}`)));
  });
}

/** Whether the judge's means order its systems. */
function ranks(judge) {
  return judge.ranking !== "input-order";
}

/** What a reader must know before the scores, in boxes above them: degenerate output, what the judge does not find, and
 * which systems have units that are no translations. */
function cautions(judge) {
  const box = (...content) => el("div", { class: "warning", role: "note" }, ...content);
  const found = [];
  if (judge.warning) found.push(box(judge.warning));
  if (judge.cautions.length > 0) found.push(box(...judge.cautions.map((said) => el("p", {}, ...quoted(`${said}.`)))));
  if (judge.warnings.length > 0) found.push(box(...judge.warnings.map((said) => el("p", {}, `${said}.`))));
  return found;
}

/** Buttons for the parts that are shown apart: scores of different pairs are never pooled. */
function parts(name, all, chosen, choose) {
  const buttons = all.map(([label, value]) => el("button", { type: "button", "aria-pressed": String(value === chosen), on: { click: () => choose(value) } }, label));
  return el("div", { class: "parts", role: "group", "aria-label": name }, el("span", { class: "soft small" }, name), buttons);
}

function count(data, judge, chosen) {
  const categories = new Map(), scores = data.systems.map(() => []);
  const isHere = data.pairs.map((pair) => pair.join("–") === chosen.pair);
  for (const row of data.rows) for (const cell of row.cells) {
    if (!isHere[row.pair] || (chosen.domain !== null && data.domains[row.doc] !== chosen.domain)) continue;
    const verdict = cell.verdicts[judge];
    if (!verdict) continue;
    if (verdict.score !== null) scores[cell.system].push(verdict.score);
    for (const error of verdict.errors) {
      const key = error.category;
      if (!categories.has(key)) categories.set(key, [0, 0, 0, 0]);
      categories.get(key)[error.severity] += error.times;
    }
  }
  return { categories, scores };
}

function standings(noun, judge, slice, index, go) {
  let low = Infinity, high = -Infinity;
  for (const s of slice.standings) { low = Math.min(low, s.low ?? Infinity); high = Math.max(high, s.high ?? -Infinity); }
  const x = (value) => 4 + (high > low ? (value - low) / (high - low) : .5) * 152;
  const severities = judge.marks ? SEVERITIES.map((s) => s[0].toUpperCase() + s.slice(1)) : [];
  const ranked = ranks(judge), when = (cells) => ranked ? cells : [];
  const head = ["System", ...when(["Rank"]), ranked ? "Score" : "Mean score", "95% interval", ...when([""]), `${noun[0].toUpperCase()}${noun.slice(1)}s`, "Missing", ...severities];
  const body = el("tbody");
  const line = (s, at) => {
    const first = at > 0 && s.rank !== slice.standings[at - 1].rank;
    const bar = s.score === null ? null : el("svg", { width: 160, height: 18, role: "img", "aria-label": `${number(s.low)} to ${number(s.high)}` },
      el("line", { class: "whisker", x1: x(s.low), x2: x(s.high), y1: 9, y2: 9 }), el("circle", { class: "dot", cx: x(s.score), cy: 9, r: 4 }));
    const choose = el("button", { type: "button", title: `Show its ${noun}s`, on: { click: () => go({ system: s.system, judge: index }) } }, ...named(s.system));
    const cells = [...when([s.rank ?? "–"]), number(s.score), s.score === null ? "–" : `${number(s.low)} to ${number(s.high)}`, ...when([bar]), s.units.toLocaleString("en"), s.missing.toLocaleString("en"), ...s.severities.slice(0, severities.length).map((n) => number(n))];
    return el("tr", { class: first ? "cluster" : null }, el("th", { scope: "row" }, choose), cells.map((cell) => el("td", {}, cell ?? "")));
  };
  const over = slice.common === null ? `the ${noun}s of each system that have a verdict` : slice.standings.length === 1 ? plural(slice.common, noun) : `the ${plural(slice.common, noun)} that every system has a verdict on`;
  const order = !ranked && slice.standings.length > 1 ? " Systems stand in the order of the input." : slice.contests.length > 0 ? " A new rank begins below a rule: some system above it is significantly better (p ≤ 0.05)." : "";
  const caption = `Mean score over ${over}; higher is better.${order}${severities.length > 0 ? ` Errors are counted per ${noun}.` : ""}`;
  const more = few(slice.standings, line, body, 100, "system");
  const gaps = el("div"), moreGaps = few(slice.standings.filter((s) => s.empty > 0), (s) => leftEmpty(noun, s, slice), gaps, 20, "system");
  return el("div", {}, el("p", { class: "soft" }, caption), el("div", { class: "scroll" }, el("table", { class: "standings", "aria-label": caption },
    el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))), body)), more, gaps, moreGaps);
}

/** What the empty translations of a system do to the means. */
function leftEmpty(noun, s, slice) {
  const are = s.empty === 1 ? ["1 empty translation has", "is"] : [`${s.empty.toLocaleString("en")} empty translations have`, "are"];
  const effect = slice.standings.length > 1 && slice.common !== null ? `with the same ${noun}s of the other systems` : "which costs the system nothing";
  return el("p", { class: "soft empty" }, `${s.system}: ${are[0]} no verdict and ${are[1]} left out of the mean, ${effect}.`);
}

function categories(data, counts, index, go) {
  const all = [...counts.categories].map(([category, by]) => ({ category, by, sum: by.reduce((a, b) => a + b, 0) })).sort((a, b) => b.sum - a.sum);
  const judge = data.judges[index];
  if (!judge.marks) return judge.human ? el("div", {}, el("h3", {}, "Errors"), el("p", {}, "Spans not recorded: there are scores, and no ratings behind them.")) : el("div");
  if (all.length === 0) return el("div", {}, el("h3", {}, "Errors"), el("p", {}, "No errors were marked."));
  const widest = all[0].sum;
  const rows = all.slice(0, 20).map(({ category, by, sum }) => {
    let x = 0;
    const parts = by.map((n, severity) => {
      const width = n / widest * 240, part = el("rect", { class: SEVERITIES[severity], x, y: 2, width, height: 12 }, el("title", {}, `${n} ${SEVERITIES[severity]}`));
      x += width;
      return part;
    });
    const name = categoryName(data, category);
    return el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", on: { click: () => go({ category, judge: index }) } }, name)),
      el("td", {}, el("svg", { class: "bars", width: 240, height: 16, "aria-hidden": "true" }, parts)), by.map((n) => el("td", {}, n || "")), el("td", {}, sum));
  });
  const head = ["Category", "", "Critical", "Major", "Minor", "Neutral", "All"];
  const more = all.length > 20 ? el("p", { class: "soft small" }, `… and ${all.length - 20} rarer categories`) : null;
  return el("div", { class: "scroll" }, el("h3", {}, "Errors by category and severity"), el("table", {}, el("thead", {}, el("tr", {}, head.map((h) => el("th", { scope: "col" }, h)))), el("tbody", {}, rows)), more);
}

/** A category as readers see it; judges that do not classify call all errors `other`. */
function categoryName(data, category) {
  const name = data.categories[category];
  return name && name !== "other" ? name : "(not classified)";
}

function distribution(data, counts, slice) {
  let low = Infinity, high = -Infinity;
  for (const scores of counts.scores) for (const score of scores) { low = Math.min(low, score); high = Math.max(high, score); }
  if (low > high) return el("div");
  const bins = 24, width = 200, step = (high - low) / bins || 1;
  const body = el("tbody"), there = slice.standings.map(({ system }) => ({ system, index: data.systems.indexOf(system) })).filter(({ index }) => counts.scores[index]?.length > 0);
  const line = ({ system, index }) => {
    const scores = counts.scores[index], binned = new Array(bins).fill(0);
    for (const score of scores) binned[Math.min(bins - 1, Math.floor((score - low) / step))]++;
    const top = Math.max(...binned, 1);
    const rects = binned.map((n, i) => el("rect", { class: "hist", x: i * width / bins, y: 30 - 28 * n / top, width: width / bins - 1, height: 28 * n / top },
      el("title", {}, `${plural(n, data.unit)} from ${number(low + i * step)} to ${number(low + (i + 1) * step)}`)));
    return el("tr", {}, el("th", { scope: "row" }, ...named(system)), el("td", {}, el("svg", { width, height: 31, role: "img", "aria-label": `Distribution of the scores of ${system}` }, rects, el("line", { class: "axis", x1: 0, x2: width, y1: 30, y2: 30 }))));
  };
  const more = few(there, line, body, 40, "system");
  return el("div", { class: "scroll" }, el("h3", {}, `Scores of ${data.unit}s`), el("table", {}, el("caption", {}, `from ${number(low)} to ${number(high)}`), body), more);
}

function contests(noun, slice, index, go) {
  const names = slice.standings.map((s) => s.system), by = new Map();
  for (const c of slice.contests) {
    by.set(`${c.a}\n${c.b}`, c);
    by.set(`${c.b}\n${c.a}`, { ...c, a: c.b, b: c.a, wins: c.losses, losses: c.wins, difference: -c.difference });
  }
  const line = (a) => el("tr", {}, el("th", { scope: "row" }, ...named(a)), names.map((b) => {
    const c = by.get(`${a}\n${b}`);
    if (!c) return el("td", {}, "");
    const sure = c.p <= 0.05, title = `difference ${number(c.difference)}, p = ${c.p.toFixed(4)}`;
    const show = () => go({ judge: index, against: [a, b] });
    return el("td", { class: sure ? (c.difference > 0 ? "better" : "worse") : null, title },
      el("button", { type: "button", title: `${title}. Show where they differ most`, on: { click: show } }, `${c.wins}–${c.ties}–${c.losses}${sure ? " *" : ""}`));
  }));
  const box = el("details", { open: names.length <= 8 }, el("summary", {}, "System against system"), el("p", { class: "soft" }, `On how many ${noun}s the system of the row scores higher – the same – lower than the system of the column; * p ≤ 0.05 (paired approximate randomization). Choose a cell to see where the two differ most.`));
  // Two hundred systems make forty thousand cells: they are made when somebody looks.
  const fill = () => {
    if (!box.open || box.dataset.filled) return;
    box.dataset.filled = "true";
    const body = el("tbody"), more = few(names, line, body, 40, "system");
    box.append(el("div", { class: "scroll" }, el("table", { class: "contests" }, el("thead", {}, el("tr", {}, el("td", {}, ""), names.map((name) => el("th", { scope: "col" }, ...named(name))))), body), more));
  };
  box.addEventListener("toggle", fill);
  fill();
  return box;
}

function agreement(data, agreements) {
  const rows = agreements.map((a) => el("tr", {}, el("th", { scope: "row" }, `${data.judges[a.first].name} – ${data.judges[a.second].name}`),
    el("td", {}, a.units.toLocaleString("en")), el("td", {}, number(a.kendall, 3)), el("td", {}, number(a.same_order === null ? null : a.same_order, 3)), el("td", {}, number(a.span_f1, 3))));
  return el("section", {}, el("h2", {}, data.judges.some((judge) => judge.human) ? "Agreement of judges and human raters" : "Agreement of the judges"), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {},
    ["Judges", "Translations", "Kendall’s τ-b", "Systems in the same order", "F1 of marked characters"].map((h) => el("th", { scope: "col" }, h)))), el("tbody", {}, rows))));
}
