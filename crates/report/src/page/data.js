"use strict";
// Reads the embedded data: base64 of zlib of JSON. Nothing here touches the page but for the elements that hold it.

/** The value that an element of the page holds. */
async function embedded(id) {
  const element = document.getElementById(id);
  if (!element) return null;
  const text = element.textContent.trim();
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const SEVERITIES = ["critical", "major", "minor", "neutral"];

// Places in the arrays that the data consists of; crates/report/src/page/data.rs writes them.
const ROW = { pair: 0, doc: 1, seg: 2, source: 3, cells: 4 };
const CELL = { system: 0, hypothesis: 1, verdicts: 2 };
const VERDICT = { score: 0, quality: 1, status: 2, reason: 3, errors: 4, interval: 5, warning: 6 };
const ERROR = { span: 0, side: 1, start: 2, end: 3, category: 4, severity: 5, weight: 6, explanation: 7, confidence: 8, times: 9 };

const conversations = new Map();

/** The calls behind a row's verdicts: `{system: {judge: [call]}}`, or null. Blocks are read when they are asked for. */
async function callsOf(data, row) {
  if (!data.block) return null;
  const block = Math.floor(row / data.block);
  if (!conversations.has(block)) conversations.set(block, embedded(`calls-${block}`));
  const found = await conversations.get(block);
  return found ? { texts: found.texts, calls: found.rows[row] || null } : null;
}

/** The share of a judge's scores below each score, ties counted half: what judges of different scales are compared by. */
function places(data, judge) {
  const scores = [];
  for (const row of data.rows) for (const cell of row[ROW.cells]) {
    const verdict = cell[CELL.verdicts][judge];
    if (verdict && verdict[VERDICT.score] !== null) scores.push(verdict[VERDICT.score]);
  }
  const sorted = Float64Array.from(scores).sort();
  const place = new Map();
  for (let from = 0; from < sorted.length;) {
    let to = from;
    while (to < sorted.length && sorted[to] === sorted[from]) to++;
    place.set(sorted[from], (from + to) / 2 / sorted.length);
    from = to;
  }
  return place;
}

/** How far apart the judges are on each row, 0 to 1: the widest difference of their places on one translation. */
function disagreements(data) {
  const ranks = data.judges.map((_, judge) => places(data, judge));
  return Float32Array.from(data.rows, (row) => {
    let widest = 0;
    for (const cell of row[ROW.cells]) {
      const found = [];
      cell[CELL.verdicts].forEach((verdict, judge) => {
        if (verdict && verdict[VERDICT.score] !== null) found.push(ranks[judge].get(verdict[VERDICT.score]));
      });
      if (found.length > 1) widest = Math.max(widest, Math.max(...found) - Math.min(...found));
    }
    return widest;
  });
}
