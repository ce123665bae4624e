// One segment: source with its document around it, translations side by side, what each judge found, and the
// conversation behind it.

async function detail(data, index) {
  const box = document.getElementById("detail"), row = data.rows[index], [src, tgt] = data.pairs[row.pair];
  closeTip();
  const all = row.cells.flatMap((cell) => cell.verdicts.flatMap((v) => v ? v.errors : []));
  const source = el("div", { class: "source" }, marked(row.source, src, all, "source", (indices, mark, how) => tip(indices.map((i) => all[i]), data, mark, how)));
  const cards = el("div", { class: "translations" });
  const more = few(row.cells, (cell) => card(data, index, row, cell, tgt), cards, 30, "system");
  const back = el("button", { type: "button", class: "back", on: { click: () => { document.body.classList.remove("reading"); document.getElementById("list").focus(); } } }, `← All ${data.unit}s`);
  const parts = [back, el("h2", {}, place(data, row)), around(data, index, -1, src), source, around(data, index, 1, src), direction(tgt)];
  box.replaceChildren(...parts.filter(Boolean), cards, more);
  box.scrollTop = 0;
}

/** Up to two segments of the same document before or after this one. */
function around(data, index, step, code) {
  const row = data.rows[index], found = [];
  for (let at = index + step; found.length < 2 && data.rows[at]; at += step) {
    const other = data.rows[at];
    if (other.doc !== row.doc || other.pair !== row.pair || data.docs[row.doc] === "") break;
    found.push(el("p", { class: "text", ...language(code) }, other.source.slice(0, 2000)));
  }
  if (found.length === 0) return null;
  return el("details", { class: "context" }, el("summary", {}, step < 0 ? "Before it" : "After it"), step < 0 ? found.reverse() : found);
}

/** A switch for scripts that may be set in columns. */
function direction(code) {
  if (!/^(ja|zh|ko)(_|$)/.test(code)) return null;
  const flip = (event) => {
    const on = event.target.getAttribute("aria-pressed") !== "true";
    event.target.setAttribute("aria-pressed", String(on));
    for (const text of document.querySelectorAll(".card > .text")) text.classList.toggle("vertical", on);
  };
  return el("p", {}, el("button", { type: "button", class: "small", "aria-pressed": "false", on: { click: flip } }, "Set in columns"));
}

function card(data, index, row, cell, code) {
  const verdicts = cell.verdicts.map((verdict, judge) => ({ verdict, judge })).filter(({ verdict }) => verdict);
  const system = data.systems[cell.system];
  const box = el("section", { class: "card", "aria-label": system }, el("h3", {}, ...named(system)));
  if (verdicts.length === 0) box.append(marked(cell.hypothesis, code, [], "target"));
  if (cell.hypothesis.trim() === "") box.append(el("p", { class: "soft" }, "(an empty translation)"));
  // The text as each marked it, one below the other; what is said of the marks comes after all of them.
  const texts = verdicts.map(({ verdict, judge }) => {
    const errors = verdict.errors;
    const open = (indices, mark, how) => tip(indices.map((i) => errors[i]), data, mark, how);
    return { judge, text: marked(cell.hypothesis, code, errors, "target", open) };
  });
  const shown = texts.filter(({ text }, nth) => nth === 0 || text.querySelector("mark"));
  for (const { judge, text } of shown) {
    if (shown.length > 1) box.append(el("p", { class: "soft small whose" }, data.judges[judge].name));
    box.append(text);
  }
  verdicts.forEach(({ verdict, judge }, nth) => {
    const errors = verdict.errors;
    const part = el("div", { class: "verdict" }, heading(data, verdict, judge));
    if (verdict.warning) part.append(el("p", { class: "warning", role: "note" }, verdict.warning));
    if (errors.length > 0) part.append(list(data, errors, texts[nth].text));
    if (data.talked.includes(judge)) part.append(conversation(data, index, cell.system, judge));
    box.append(part);
  });
  return box;
}

function heading(data, verdict, judge) {
  const name = data.judges.length > 1 ? el("b", {}, `${data.judges[judge].name}: `) : null;
  if (verdict.score === null) return el("p", {}, name, `no verdict, ${data.statuses[verdict.status]}: ${verdict.reason || "no reason given"}`);
  const quality = verdict.quality === null ? "" : `, quality ${number(verdict.quality, 0)}`;
  const interval = verdict.interval;
  const between = interval === null ? null : el("span", { class: "soft", title: "raters' scores of nine in ten translations with this score lie here" }, ` (90%: ${number(interval[0])} to ${number(interval[1])})`);
  const { marks, human } = data.judges[judge];
  const none = verdict.errors.length > 0 ? "" : marks ? ", no error marked" : human ? ", spans not recorded" : "";
  return el("p", {}, name, "score ", el("span", { class: "score" }, number(verdict.score)), between, quality + none);
}

function list(data, errors, within) {
  return el("ul", { class: "errors" }, errors.map((error, index) => {
    const light = (on) => {
      for (const mark of within.querySelectorAll("mark")) {
        if (mark.dataset.errors.split(" ").includes(String(index))) mark.classList.toggle("on", on);
      }
    };
    const text = el("button", { type: "button", on: { mouseenter: () => light(true), mouseleave: () => light(false), focus: () => light(true), blur: () => light(false) } }, ...described(error, data));
    return el("li", {}, text);
  }));
}

/** Whether a category says something: `other` without an explanation or a span does not. */
function isSaid(error, data) {
  return data.categories[error.category] !== "other" || Boolean(error.explanation) || !error.span;
}

/** An error in words. */
function described(error, data) {
  const severity = SEVERITIES[error.severity];
  const where = error.side === "source" ? " in the source" : error.start === null && error.span ? " (not in the text)" : "";
  const parts = [el("span", { class: `label ${severity}` }, severity), isSaid(error, data) ? ` ${data.categories[error.category] || "error"} ` : " "];
  if (error.span) parts.push(el("q", { dir: "auto" }, error.span), where);
  if (error.times > 1) parts.push(el("span", { class: "soft" }, ` (named ${error.times} times)`));
  if (error.confidence !== null) parts.push(el("span", { class: "soft" }, ` confidence ${number(error.confidence)}`));
  if (error.explanation) parts.push(el("p", { class: "small text", dir: "auto" }, error.explanation));
  if (error.suggestion) parts.push(el("p", { class: "small text", dir: "auto" }, "suggestion: ", error.suggestion));
  return parts;
}

function tip(errors, data, mark, how) {
  const box = document.getElementById("tip");
  if (how === "hover" && box.dataset.pinned === "true") return;
  box.dataset.pinned = String(how !== "hover");
  box.replaceChildren(...errors.map((error) => el("div", {}, ...described(error, data))));
  box.hidden = false;
  const at = mark.getBoundingClientRect(), own = box.getBoundingClientRect();
  box.style.left = `${Math.max(8, Math.min(innerWidth - own.width - 8, at.left))}px`;
  box.style.top = `${at.bottom + own.height + 12 > innerHeight ? Math.max(8, at.top - own.height - 6) : at.bottom + 6}px`;
  if (how === "hover") mark.addEventListener("mouseleave", () => { if (box.dataset.pinned !== "true") closeTip(); }, { once: true });
}

function closeTip() {
  const box = document.getElementById("tip");
  box.hidden = true;
  box.dataset.pinned = "false";
}

/** The folded conversation; it is read when it is opened. */
function conversation(data, index, system, judge) {
  const box = el("details", { class: "conversation" }, el("summary", {}, "The conversation behind it"));
  box.addEventListener("toggle", async () => {
    if (!box.open || box.dataset.filled) return;
    box.dataset.filled = "true";
    const found = await callsOf(data, index);
    const calls = found?.calls?.[system]?.[judge] || [];
    box.append(...(calls.length ? calls.map((call, nth) => calling(call, nth, calls.length, found.texts)) : [el("p", { class: "soft" }, "No call is recorded.")]));
  });
  return box;
}

function calling(call, nth, of, texts) {
  const again = call.attempt > 0 ? ", asked again" : "", outcome = call.outcome ? `: ${call.outcome}` : "", cut = call.finish === "length" ? ", cut off at its budget" : "";
  const turns = call.turns.map(([speaker, text]) => turn(speaker, texts[text]));
  const long = turns.length > 3 ? el("details", {}, el("summary", {}, plural(turns.length - 1, "earlier turn")), turns.slice(0, -1)) : turns.slice(0, -1);
  return el("div", { class: "call" }, el("b", {}, `${nth + 1}/${of} ${call.stage} by ${call.role}${again}${outcome}`),
    el("span", { class: "soft small" }, ` ${plural(call.prompt, "prompt token")}, ${plural(call.answer, "answer token")}${cut}`), long, turns.at(-1), turn("reply", texts[call.reply]));
}

function turn(speaker, text) {
  return el("div", { class: `turn ${speaker}` }, el("b", {}, speaker), el("pre", { dir: "auto" }, text));
}
