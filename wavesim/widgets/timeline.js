// SM rows from top to bottom, time from left to right: the same picture for a whole trace, for a span of it
// and, up to an instant, for one that is being played. A span is [from, to] in ns.

const LEFT = 62;
const RIGHT = 116;
const NARROW_PX = 560; // a narrower picture has its ends in the headers, not beside the rows
const SHIFT_PX = 160; // the furthest that words stand from their kernel boundary
const SORTED_FROM = 17; // SMs: fewer keep their numbers' order
const HEADER_LINE = 20;
const LABEL_PX = 26; // the least width and height of a tile that has a label
const LABEL_ROW_PX = 13;

// What is left free beside the rows.
function sides(width) {
  return width < NARROW_PX ? { left: 44, right: 10 } : { left: LEFT, right: RIGHT };
}

function rowHeight(rows, target) {
  const height = Math.min(42, target / rows);
  return height >= 4 ? Math.floor(height) : height;
}

// The facts after a panel's label: in one line if there is room, and clear of a kernel boundary's words,
// which stand in the last line.
function headerLines(panel, span, width) {
  const { left } = sides(width);
  const done = width < NARROW_PX ? [`done ${panel.done[0]}${panel.gain ? `, ${panel.gain.words}` : ""}`] : [];
  const pieces = [...done, ...panel.facts.join(" · ").split(" · ")].filter((piece) => piece.trim());
  const taken = textWidth(panel.label, { size: 15, weight: 600 }) + 10;
  const line = pieces.join(" · ");
  const isOne = taken + textWidth(line) < width - left - 20;
  const rest = wrapped(pieces.slice(done.length).join(" · "), width - left - 8);
  const lines = isOne ? [line] : done.length ? [done[0], ...rest] : [pieces.slice(0, -1).join(" · "), pieces.at(-1)];
  if (!panel.boundaries.length) return lines;
  const end = headerEnd(panel, lines, width);
  const words = boundaryWords(panel, span, width, end);
  return !words.length || end <= words[0].left ? lines : [...lines, ""];
}

function headerEnd(panel, lines, width) {
  const taken = lines.length === 1 ? textWidth(panel.label, { size: 15, weight: 600 }) + 10 : 0;
  return lines.at(-1) ? sides(width).left + taken + textWidth(lines.at(-1)) + 14 : 0;
}

// What is said at each kernel boundary and from where: to the right of its line if there is room. Where the
// whole words of several would meet, each has few, and none where even those would. The words of a single one may begin
// further to the right, where the header ends at `from`.
function boundaryWords(panel, span, width, from) {
  const perNs = nsScale(span, width);
  const { left: first } = sides(width);
  const seen = panel.boundaries.filter(({ ns }) => span[0] <= ns && ns <= span[1]);
  const said = (shorten) => {
    let taken = -Infinity;
    return seen.map(({ ns, words }) => {
      const [x, short] = [first + (ns - span[0]) * perNs, shorten ? words.replace("kernel boundary: ", "") : words];
      const length = textWidth(`▾ ${short}`, { size: 11 });
      const isRight = x + length + 10 < width;
      const left = isRight ? x - 5 : x + 5 - length;
      if (left < taken) return { ns, left, text: "" };
      taken = left + length + 8;
      return { ns, left, text: isRight ? `▾ ${short}` : `${short} ▾` };
    });
  };
  const whole = said(false);
  const room = from + textWidth(`◂ ${whole[0]?.text}`, { size: 11 }) < width;
  if (whole.length === 1 && whole[0].left < from && from - whole[0].left < SHIFT_PX && room) {
    return [{ ...whole[0], left: from, text: whole[0].text.replace("▾", "◂") }];
  }
  return whole.every(({ text }) => text) ? whole : said(true);
}

// Draws one panel with its top left corner at (0, top); `until` is the instant it has reached.
function drawPanel(pen, panel, scene, { top, span, row, until = Infinity, lines = headerLines(panel, span, pen.width) }) {
  const { theme, width } = pen;
  const side = sides(width);
  pen.text(side.left, top + 9, panel.label, { size: 15, weight: 600 });
  const beside = side.left + textWidth(panel.label, { size: 15, weight: 600 }) + 10;
  lines.forEach((line, index) => {
    pen.text(index ? side.left : beside, top + 9 + index * HEADER_LINE, line, { color: theme.muted });
  });
  const place = {
    top: top + lines.length * HEADER_LINE + 4,
    left: side.left - span[0] * nsScale(span, width), // where the run begins, out of sight in a later span
    seenLeft: side.left,
    right: width - side.right,
    row,
    perNs: nsScale(span, width),
    height: panel.rows * row,
  };
  drawRowLabels(pen, panel, place);
  clipped(pen, panel, span, () => drawRows(pen, panel, scene, place, until));
  drawLines(pen, panel, span, place, until, headerEnd(panel, lines, width));
  return place;
}

function nsScale([from, to], width) {
  const { left, right } = sides(width);
  return (width - left - right) / (to - from);
}

// Draws between the axis's ends alone where a part of the run lies beyond them.
function clipped(pen, panel, [from, to], draw) {
  if (from <= 0 && to >= panel.makespan) return draw();
  const { left, right } = sides(pen.width);
  return pen.clipped([left, pen.width - right], draw);
}

function panelHeight(panel, span, row, width) {
  return headerLines(panel, span, width).length * HEADER_LINE + 4 + panel.rows * row + 20;
}

function drawRowLabels(pen, panel, place) {
  const { smCount, slots } = panel;
  if (panel.isSorted) {
    const words = place.seenLeft > 50 ? [`${smCount} SMs`, "by work"] : [`${smCount}`, "SMs"];
    words.forEach((text, line) => pen.text(place.seenLeft - 8, place.top + 8 + 15 * line, text, { size: 11, color: pen.theme.muted, align: "right" }));
    return;
  }
  const most = Math.min(16, Math.max(2, Math.floor(place.height / 17)));
  let step = 1;
  while (smCount / step > most) step = String(step)[0] === "2" ? (step * 5) / 2 : step * 2;
  for (let sm = 0; sm < smCount; sm += step) {
    if (sm !== smCount - 1 && smCount - 1 - sm < 0.6 * step) continue;
    drawRowLabel(pen, sm, slots, place);
  }
  if ((smCount - 1) % step) drawRowLabel(pen, smCount - 1, slots, place);
}

function drawRowLabel(pen, sm, slots, place) {
  const y = place.top + (sm + 0.5) * slots * place.row;
  pen.text(place.seenLeft - 8, y, `SM ${sm}`, { size: 12, color: pen.theme.muted, align: "right" });
}

// Tiles, waits and idle stretches. Where rows are thin everything touches, where they are tall it is rounded.
// Thin rows end at whole pixels, and have one at least: blended, two stages would look like waiting.
function drawRows(pen, panel, scene, place, until) {
  const { theme } = pen;
  const { stage, row, span, issue, work, end } = panel.blocks;
  const gap = place.row >= 8 ? Math.min(4, place.row * 0.2) : place.row >= 3 ? 1 : 0;
  const radius = place.row >= 24 ? 6 : place.row >= 10 ? 2 : 0;
  const edge = (index) => (place.row < 8 ? Math.round(place.top + index * place.row) : place.top + index * place.row);
  const bar = (index, span, from, to, fill, style = {}) => {
    const height = Math.max(1, edge(index + span) - edge(index) - gap);
    const left = place.left + from * place.perNs;
    let width = (to - from) * place.perNs;
    if (width > 8) width -= Math.max(1, gap / 2);
    pen.rect(left, edge(index) + (place.row < 8 ? 0 : gap / 2), Math.max(width, 0.5), height, fill, { radius, ...style });
  };
  const label = (index, span, from, to, words, color, size = 13) => {
    const x = place.left + ((from + to) / 2) * place.perNs;
    pen.text(x, place.top + (index + span / 2) * place.row, words, { size, weight: size > 12 ? 600 : 400, color, align: "center" });
  };
  const has = (from, to, words) => place.row >= LABEL_ROW_PX && (to - from) * place.perNs > Math.max(LABEL_PX, words.length * 7 + 6);
  const { idle } = panel;
  for (let i = 0; i < idle.row.length; i++) {
    const to = Math.min(idle.end[i], until);
    if (to <= idle.start[i]) continue;
    bar(idle.row[i], 1, idle.start[i], to, "idle", place.row >= 16 ? { stroke: theme.idle_hatch } : {});
    if (place.row >= 24 && has(idle.start[i], to, "idle")) label(idle.row[i], 1, idle.start[i], to, "idle", theme.muted, 11);
  }
  const name = (b) => {
    const to = Math.min(panel.labelled[b], until);
    if (issue[b] > until || place.row < LABEL_ROW_PX) return;
    const words = tileLabel(panel, scene.stages, b);
    if (to > work[b] && has(work[b], to, words)) {
      label(row[b], span[b], work[b], to, words, theme.stage_text[stage[b] % theme.stage_text.length]);
    }
  };
  for (let kind = 0; kind < scene.stages.length; kind++) {
    for (let b = 0; b < stage.length; b++) {
      if (stage[b] !== kind || issue[b] > until) continue;
      const to = Math.min(end[b], until);
      const colour = theme.stages[kind % theme.stages.length];
      const outline = isPart(panel.blocks, b) && place.row >= 8 ? { stroke: theme.ink, dash: [4, 3] } : {};
      if (to > work[b]) bar(row[b], span[b], work[b], to, colour, outline);
      if (span[b] > 1) name(b); // a later stage's tile may cover it
    }
  }
  const { waits } = panel;
  for (let i = 0; i < waits.start.length; i++) {
    const to = Math.min(waits.end[i], until);
    if (to <= waits.start[i]) continue;
    const b = waits.block[i];
    bar(row[b], span[b], waits.start[i], to, "waiting");
    const words = `${tileLabel(panel, scene.stages, b)} waits`;
    if (place.row >= 24 && has(waits.start[i], to, words)) {
      const middle = place.left + ((waits.start[i] + to) / 2) * place.perNs;
      const y = place.top + (row[b] + span[b] / 2) * place.row;
      const width = textWidth(words, { size: 11 }) + 10;
      pen.rect(middle - width / 2, y - 9, width, 18, theme.background, { radius: 5 });
      label(row[b], span[b], waits.start[i], to, words, theme.ink, 11);
    }
  }
  for (let b = 0; b < stage.length; b++) {
    if (span[b] === 1) name(b);
  }
}

// Kernel boundaries, and the end with what stands beside it.
function drawLines(pen, panel, span, place, until, headEnd) {
  const { theme } = pen;
  const upright = (ns, style) => {
    const x = place.left + ns * place.perNs;
    pen.path([[x, place.top - 4], [x, place.top + place.height + 4]], style);
    return x;
  };
  for (const { ns, left, text } of boundaryWords(panel, span, pen.width, headEnd)) {
    if (ns > until) continue;
    upright(ns, { stroke: theme.ink, line: 2.2, dash: [6, 4] });
    pen.text(left, place.top - 14, text, { size: 11, color: theme.muted });
  }
  if (until < panel.makespan || panel.makespan < span[0] || panel.makespan > span[1]) return;
  const colour = panel.gain ? theme[panel.gain.kind] : theme.ink;
  const x = upright(panel.makespan, { stroke: colour, line: 2.4 }) + 10;
  if (pen.width < NARROW_PX) return; // its header says so
  const middle = place.top + place.height / 2 - (panel.gain ? 20 : 10);
  pen.text(x, middle, "done", { weight: 600 });
  panel.done.forEach((line, index) => {
    const [size, color] = index ? [10, theme.muted] : [13, theme.ink];
    pen.text(x, middle + 18 * (index + 1), line, { size, color });
  });
  const below = middle + 18 * (panel.done.length + 1);
  if (panel.gain) pen.text(x, below, panel.gain.words, { weight: 600, color: colour });
}

// The time axis under everything, with dotted lines upward to `top`.
function drawAxis(pen, scene, { left, right, perNs }, y, top, [from, to], hasTitle = true) {
  const { theme } = pen;
  const { ns } = scene.unit;
  const range = (to - from) / ns;
  // A whole run has whole ticks; a span of it may be shorter than one.
  const step = from > 0 && range <= 8 ? 10 ** Math.floor(Math.log10(range / 2)) : tickStep(range, (right - left) / 90);
  for (let value = Math.ceil(from / ns / step - 1e-6) * step; value * ns <= to * 1.0001; value += step) {
    const x = left + (value * ns - from) * perNs;
    pen.path([[x, top], [x, y]], { stroke: theme.grid, line: 1, dash: [2, 3] });
    const text = Number(value.toFixed(6)).toLocaleString("en");
    pen.text(x, y + 14, text, { size: 12, color: theme.muted, align: "center" });
  }
  if (hasTitle) pen.text((left + right) / 2, y + 34, scene.unit.axis, { size: 12, color: theme.muted, align: "center" });
  else pen.text(right + 10, y + 14, scene.unit.symbol || "tile times", { size: 12, color: theme.muted });
}

// What the colours mean.
function legendEntries(scene, panels) {
  const roles = scene.stages.length === 2 ? [", producer", ", consumer"] : [];
  const stages = scene.stages.map((stage, index) => [
    `${stage.letter} = tile of ${stage.name}${roles[index] ?? ""}`,
    (x, y, pen) => swatch(pen, pen.theme.stages[index % pen.theme.stages.length])(x, y),
  ]);
  const hasWaits = panels.some((panel) => panel.waits.block.length);
  const marks = [...(hasWaits ? [["waiting for a semaphore", "waiting"]] : []), ["idle SM", "idle"]];
  return [...stages, ...marks.map(([words, fill]) => [words, (x, y, pen) => swatch(pen, fill)(x, y)])];
}
