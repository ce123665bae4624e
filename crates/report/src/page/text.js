// Elements and texts. Every text from the data goes through textContent: none of it ever becomes markup.

/** An element with attributes and children; strings become text. */
function el(name, attributes, ...children) {
  const svg = ["svg", "g", "rect", "line", "circle", "text", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const RIGHT_TO_LEFT = new Set(["ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "nqo", "ps", "sd", "syr", "ug", "ur", "yi"]);
const RTL_SCRIPTS = /_(Arab|Hebr|Thaa|Nkoo|Syrc|Adlm|Rohg)(_|$)/;

/** `lang` and `dir` of a text in a language as WMT writes it. */
function language(code) {
  const base = code.split("_")[0].toLowerCase();
  const latin = /_Latn(_|$)/.test(code);
  const rtl = RTL_SCRIPTS.test(code) || (RIGHT_TO_LEFT.has(base) && !latin);
  return { lang: code.replaceAll("_", "-"), dir: rtl ? "rtl" : "ltr" };
}

/** So many characters of a text are shown before a reader asks for more: a browser lays out a megabyte in seconds. */
const LONGEST = 20000;

/** The first of many things, and a button for those that come next. */
function few(things, render, parent, n, word) {
  let shown = 0;
  const more = el("button", { type: "button", class: "small more" });
  const grow = () => {
    const next = things.slice(shown, shown + n);
    parent.append(...next.map((thing, at) => render(thing, shown + at)));
    shown += next.length;
    more.hidden = shown >= things.length;
    more.textContent = `Show ${Math.min(n, things.length - shown).toLocaleString("en")} more of ${plural(things.length, word)}`;
  };
  more.addEventListener("click", grow);
  grow();
  return more;
}

/** A word of a name with more letters than this may be broken. */
const UNBROKEN = 24;

/** A name that may be broken between its words, and nowhere else. */
function named(name) {
  const word = (part) => part.length > UNBROKEN ? el("span", { class: "long" }, part) : part;
  return name.split(/(?<=[-_./ ])/).flatMap((part, at) => at ? [el("wbr"), word(part)] : [word(part)]);
}

/** A sentence of the program: what it has in backticks is set as code. */
function quoted(sentence) {
  return sentence.split("`").map((part, at) => at % 2 ? el("code", {}, part) : part);
}

/** A text in its language, with error spans marked. `open(indices, element)` is called when a span is chosen. */
function marked(text, code, errors, side, open, most = LONGEST) {
  const mongolian = /_Mong(_|$)/.test(code);
  const box = el("div", { class: mongolian ? "text vertical mongolian" : "text", ...language(code) });
  const all = Array.from(text), points = all.length > most ? all.slice(0, most) : all;
  const spans = errors.map((error, index) => ({ error, index }))
    .filter(({ error }) => error.side === side && error.start !== null && error.end > error.start && error.start < points.length);
  const cuts = new Set([0, points.length]);
  for (const { error } of spans) for (const at of [error.start, error.end]) cuts.add(Math.min(at, points.length));
  const sorted = [...cuts].sort((a, b) => a - b);
  for (let i = 0; i + 1 < sorted.length; i++) {
    const [from, to] = [sorted[i], sorted[i + 1]];
    const piece = points.slice(from, to).join("");
    const over = spans.filter(({ error }) => error.start <= from && error.end >= to);
    if (over.length === 0) { box.append(piece); continue; }
    const worst = Math.min(...over.map(({ error }) => error.severity));
    const indices = over.map(({ index }) => index);
    const name = over.map(({ error }) => SEVERITIES[error.severity]).join(", ");
    const mark = el("mark", {
      class: over.length > 1 ? `${SEVERITIES[worst]} several` : SEVERITIES[worst], tabindex: "0", role: "button", "aria-label": `${name} error: ${piece}`, "data-errors": indices.join(" "),
    }, piece);
    mark.addEventListener("click", () => open(indices, mark));
    mark.addEventListener("mouseenter", () => open(indices, mark, "hover"));
    mark.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(indices, mark); }
    });
    box.append(mark);
  }
  if (points.length < all.length) {
    const rest = el("button", { type: "button", class: "small" }, `Show all ${plural(all.length, "character")}`);
    rest.addEventListener("click", () => box.replaceWith(marked(text, code, errors, side, open, Infinity)));
    box.append(" … ", rest);
  }
  return box;
}

function number(value, digits = 2) {
  return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
}

function plural(n, word) {
  return `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
}
