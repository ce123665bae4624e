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
  for (const row of data.rows) for (const cell of row.cells) {
    const verdict = cell.verdicts[judge];
    if (verdict && verdict.score !== null) scores.push(verdict.score);
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
    for (const cell of row.cells) {
      const found = [];
      cell.verdicts.forEach((verdict, judge) => {
        if (verdict && verdict.score !== null) found.push(ranks[judge].get(verdict.score));
      });
      if (found.length > 1) widest = Math.max(widest, Math.max(...found) - Math.min(...found));
    }
    return widest;
  });
}
