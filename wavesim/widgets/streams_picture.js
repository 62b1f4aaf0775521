// A stream program on one time axis: host threads, streams, hardware queues, engines and SMs, from top to bottom.
// A stream's row says what an operation waits for: hatched for an engine or an SM; hatched with a dashed edge
// where it was ready and stood behind another stream in its hardware queue, a false dependency.

const GROUPS = {
  host: ["The host calls", 20],
  streams: ["Streams", 28],
  queues: ["Front of each hardware queue", 20],
  engines: ["Engines", 24],
};
const [NAME_PX, EDGE_PX, HEAD_PX, GAP_PX, SM_PX, BUSY_PX, MOST_ARROWS] = [132, 26, 24, 10, 11, 56, 24];
const SMS = "SMs";

function usText(ns) {
  const us = ns / 1000;
  return `${us.toLocaleString("en", { maximumFractionDigits: us < 10 ? 1 : 0 })} µs`;
}

// Where each row is: [top, height] by its number; then the SMs, the axis and the whole height.
function streamsLayout(scene, width) {
  const lines = [scene.subtitle, ...scene.notes];
  let y = headingHeight(scene.title, lines, width - 40) + 4;
  const [rows, heads] = [[], []];
  scene.rows.forEach((row, index) => {
    if (row.group !== scene.rows[index - 1]?.group) {
      y += index ? GAP_PX : 0;
      heads.push([GROUPS[row.group][0], y]);
      y += HEAD_PX;
    }
    rows.push([y, GROUPS[row.group][1]]);
    y += GROUPS[row.group][1] + 3;
  });
  const hasSms = scene.busy.length > 1;
  const sms = y + GAP_PX + HEAD_PX;
  const smsHeight = !hasSms ? 0 : scene.blocks.length ? scene.smCount * (SM_PX + 1) : BUSY_PX;
  if (hasSms) heads.push([scene.blocks.length ? SMS : `${SMS} that hold a block`, y + GAP_PX]);
  const ground = (hasSms ? sms + smsHeight : y) + 8;
  const [left, right] = [NAME_PX, width - EDGE_PX];
  return { rows, heads, sms, smsHeight, hasSms, ground, left, right, perNs: (right - left) / scene.endNs, height: ground + 96 };
}

function drawStreams(pen, scene, layout, chosen) {
  drawHeading(pen, scene.title, [scene.subtitle, ...scene.notes], 20, pen.width - 40);
  drawGround(pen, scene, layout);
  const at = (ns) => layout.left + ns * layout.perNs;
  for (const call of scene.host) drawCall(pen, call, layout.rows[call.row], at);
  scene.operations.forEach((one, index) => drawOperation(pen, scene, layout, one, index, at));
  drawSms(pen, scene, layout, at);
  drawArrows(pen, scene, layout, at, chosen);
  if (chosen >= 0) drawChosen(pen, scene.operations[chosen], layout, at);
  drawStreamsKey(pen, scene, layout);
}

function drawGround(pen, scene, { rows, heads, ground, left, right, perNs }) {
  const { theme } = pen;
  const step = tickStep(scene.endNs / 1000, (right - left) / 90);
  for (let us = 0; us * 1000 <= scene.endNs * 1.0001; us += step) {
    const x = left + us * 1000 * perNs;
    pen.path([[x, rows[0][0]], [x, ground]], { stroke: theme.grid, line: 1, dash: [2, 3] });
    pen.text(x, ground + 14, Number(us.toFixed(6)).toLocaleString("en"), { size: 12, color: theme.muted, align: "center" });
  }
  pen.text((left + right) / 2, ground + 34, "time (µs)", { size: 12, color: theme.muted, align: "center" });
  for (const [words, y] of heads) pen.text(20, y + 12, words, { size: 13, weight: 600 });
  scene.rows.forEach((row, index) => {
    const [top, height] = rows[index];
    pen.rect(left, top, right - left, height, theme.card, { radius: 3 });
    pen.text(left - 10, top + height / 2, row.label ?? row.name, { size: 12, color: theme.muted, align: "right" });
  });
}

function drawCall(pen, call, [top, height], at) {
  const { theme } = pen;
  const [x, wait, end] = [at(call.start), at(call.wait), at(call.end)];
  pen.rect(x, top + 2, Math.max(1.5, wait - x), height - 4, theme.ink, { radius: wait - x > 5 ? 2 : 0 });
  if (end - wait < 1) return;
  pen.rect(wait, top + 2, end - wait, height - 4, "waiting", { radius: 3 });
  label(pen, `waits in ${call.words}`, wait, end, top + height / 2, { size: 11, color: theme.ink, ground: theme.background });
}

// Words where they fit between two places; on a hatch they have a ground of their own.
function label(pen, words, from, upto, y, { ground, ...style }) {
  const width = textWidth(words, style);
  if (width + 8 > upto - from) return;
  const middle = (from + upto) / 2;
  if (ground) pen.rect(middle - width / 2 - 4, y - 8, width + 8, 16, ground, { radius: 3 });
  pen.text(middle, y, words, { align: "center", ...style });
}

function drawOperation(pen, scene, layout, one, index, at) {
  const { theme } = pen;
  const [fill, ink] = [theme.stages[one.colour], theme.stage_text[one.colour]];
  const [top, height] = layout.rows[one.stream];
  if (one.false > 0) {
    pen.rect(at(one.ready), top + 5, at(one.head) - at(one.ready), height - 10, "waiting", { radius: 3, stroke: theme.bad, line: 1.6, dash: [4, 3] });
  }
  const queued = Math.max(one.left, one.ready);
  if (at(one.start) - at(queued) > 1) pen.rect(at(queued), top + 8, at(one.start) - at(queued), height - 16, "waiting", { radius: 2 });
  bar(pen, one, top + 2, height - 4, at, fill, ink);
  const [queueTop, queueHeight] = layout.rows[one.queue];
  const wide = at(one.left) - at(one.head);
  pen.rect(at(one.head), queueTop + 2, Math.max(1.5, wide), queueHeight - 4, wide > 2 ? theme.background : fill, { radius: 3, stroke: wide > 2 ? fill : null, line: 1.6 });
  label(pen, one.name, at(one.head), at(one.left), queueTop + queueHeight / 2, { size: 11 });
  if (one.engine >= 0) bar(pen, one, layout.rows[one.engine][0] + 2, layout.rows[one.engine][1] - 4, at, fill, ink);
}

function bar(pen, one, top, height, at, fill, ink) {
  const [x, end] = [at(one.start), at(one.end)];
  pen.rect(x + 0.5, top, Math.max(1.5, end - x - 1), height, fill, { radius: end - x > 8 ? 4 : 0 });
  label(pen, one.name, x, end, top + height / 2, { size: 12, weight: 600, color: ink });
}

function drawSms(pen, scene, { sms, smsHeight, hasSms, left, right, perNs }, at) {
  const { theme } = pen;
  if (!hasSms) return;
  if (!scene.blocks.length) return drawShare(pen, scene, { sms, smsHeight, left, right, perNs });
  const slots = 1 + Math.max(...scene.blocks.map(([, , slot]) => slot));
  const height = SM_PX / slots;
  for (let sm = 0; sm < scene.smCount; sm++) {
    pen.rect(left, sms + sm * (SM_PX + 1), right - left, SM_PX, theme.card);
    if (scene.smCount <= 8 || sm % 4 === 0) pen.text(left - 10, sms + sm * (SM_PX + 1) + SM_PX / 2, `SM ${sm}`, { size: 10, color: theme.muted, align: "right" });
  }
  for (const [operation, sm, slot, start, end] of scene.blocks) {
    const top = sms + sm * (SM_PX + 1) + slot * height;
    pen.rect(at(start) + 0.5, top, Math.max(1, at(end) - at(start) - 1), height, theme.stages[scene.operations[operation].colour]);
  }
}

function drawShare(pen, scene, { sms, smsHeight, left, right, perNs }) {
  const { theme } = pen;
  const ground = sms + smsHeight;
  pen.rect(left, sms, right - left, smsHeight, theme.card);
  const points = [[left, ground]];
  scene.busy.forEach(([ns, share], index) => {
    const x = left + ns * perNs;
    if (index) points.push([x, ground - scene.busy[index - 1][1] * smsHeight]);
    points.push([x, ground - share * smsHeight]);
  });
  points.push([right, points.at(-1)[1]], [right, ground]);
  pen.path(points, { fill: theme.stages[1] });
  pen.text(left - 10, sms + 6, `${scene.smCount}`, { size: 11, color: theme.muted, align: "right" });
  pen.text(left - 10, ground - 6, "0", { size: 11, color: theme.muted, align: "right" });
}

// Promised waits for other streams, and false ones; where there are many, those of the chosen operation only.
function drawArrows(pen, scene, layout, at, chosen) {
  const { theme } = pen;
  const promised = scene.operations.flatMap((one, index) => one.after.map((before) => [before, index]));
  const held = scene.operations.flatMap((one, index) => (one.held >= 0 ? [[one.held, index]] : []));
  const seen = (arrows) => (arrows.length <= MOST_ARROWS ? arrows : arrows.filter((pair) => pair.includes(chosen)));
  for (const [before, index] of seen(promised)) {
    const [from, to] = [scene.operations[before], scene.operations[index]];
    arrow(pen, at(from.end), layout.rows[from.stream], at(to.start), layout.rows[to.stream], theme.ink, []);
  }
  for (const [before, index] of seen(held)) {
    const [from, to] = [scene.operations[before], scene.operations[index]];
    arrow(pen, at(from.left), layout.rows[from.stream], at(to.head), layout.rows[to.stream], theme.bad, [5, 4]);
  }
}

// From a row's edge along the gap beside it, then to the other row, whichever is above.
function arrow(pen, x0, [top0, height0], x1, [top1, height1], colour, dash) {
  const down = top1 >= top0 ? 1 : -1;
  const from = down > 0 ? top0 + height0 + 1.5 : top0 - 1.5;
  const tip = down > 0 ? top1 + 5 : top1 + height1 - 5;
  const points = [[x0, from - down * 5], [x0, from], [x1, from], [x1, tip - down * 4]];
  pen.path(points, { stroke: pen.theme.background, line: 4 });
  pen.path(points, { stroke: colour, line: 1.8, dash });
  pen.path([[x1 - 4.5, tip - down * 6], [x1 + 4.5, tip - down * 6], [x1, tip]], { fill: colour });
}

function drawChosen(pen, one, layout, at) {
  const [top, height] = layout.rows[one.stream];
  const [x, end] = [at(one.start), at(one.end)];
  pen.rect(x - 2, top - 1, Math.max(4, end - x) + 4, height + 2, null, { radius: 6, stroke: pen.theme.ink, line: 2.4 });
}

function drawStreamsKey(pen, scene, { ground }) {
  const { theme } = pen;
  const names = ["h2d", "kernel", "d2h", "host"];
  const line = (colour, dash) => (x, y) => pen.path([[x - 2, y], [x + 14, y]], { stroke: colour, line: 2, dash });
  const waits = scene.operations.some((one) => one.start > Math.max(one.left, one.ready)) ? [["waits for an engine or an SM", swatch(pen, "waiting")]] : [];
  const after = scene.operations.some((one) => one.after.length) ? [["promised: waits for another stream", line(theme.ink, [])]] : [];
  const held = scene.operations.some((one) => one.false > 0)
    ? [["false: ready, and behind another stream in its queue", swatch(pen, "waiting", { stroke: theme.bad, line: 1.6, dash: [3, 2] })]]
    : [];
  const kinds = scene.kinds.map(([word, words]) => [words, swatch(pen, theme.stages[names.indexOf(word)])]);
  drawKey(pen, 20, ground + 58, [...kinds, ...waits, ...after, ...held]);
}
