// Where a measurement and its prediction differ: three strips of dots, one per tile, over time, and below them
// the reasons as bars that climb from one to the next, up to their total.

const [ERRORS_LEFT, ERRORS_RIGHT, STRIP_PX, STRIP_GAP, REASONS_PX] = [62, 116, 62, 12, 150];
const DOT_SIZE = 2;

function errorsLayout(scene, width) {
  const top = headingHeight(scene.title, [scene.subtitle], width - 40) + 12;
  const axis = top + scene.strips.length * (STRIP_PX + STRIP_GAP);
  const reasons = axis + 84;
  return { top, axis, reasons, left: ERRORS_LEFT, right: width - ERRORS_RIGHT, height: reasons + REASONS_PX + 44 };
}

function errorsScale(scene, { left, right, top }) {
  const x = (time) => left + (time / scene.end) * (right - left);
  const middle = (index) => top + index * (STRIP_PX + STRIP_GAP) + STRIP_PX / 2;
  const most = scene.strips.map(({ values }) => Math.max(1e-9, ...values.map(Math.abs)));
  return { x, middle, most, y: (index, value) => middle(index) - (value / most[index]) * (STRIP_PX / 2 - 3) };
}

function signedText(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(Math.abs(value) < 10 ? 2 : 1)}`;
}

function drawErrors(pen, scene, layout) {
  const { theme } = pen;
  const { left, right, axis } = layout;
  const { x, middle, most, y } = errorsScale(scene, layout);
  drawHeading(pen, scene.title, [scene.subtitle], left, pen.width - left - 20);
  scene.strips.forEach(({ label, values }, index) => {
    pen.path([[left, middle(index)], [right, middle(index)]], { stroke: theme.muted, line: 1 });
    pen.text(left - 8, middle(index), label, { size: 13, weight: 600, align: "right" });
    for (const [sign, at] of [[1, -1], [-1, 1]]) {
      const words = `${signedText(sign * most[index])}${scene.unit}`;
      pen.text(right + 8, middle(index) + at * (STRIP_PX / 2 - 6), words, { size: 11, color: theme.muted });
    }
    values.forEach((value, tile) => {
      const colour = theme.stages[scene.stage[tile] % theme.stages.length];
      const [across, down] = [x(scene.ends[tile]), y(index, value)];
      pen.rect(across - DOT_SIZE, down - DOT_SIZE, 2 * DOT_SIZE, 2 * DOT_SIZE, colour, { radius: DOT_SIZE });
    });
  });
  const step = tickStep(scene.end, (right - left) / 90);
  for (let value = 0; value <= scene.end; value += step) {
    pen.text(x(value), axis + 6, value.toLocaleString("en"), { size: 12, color: theme.muted, align: "center" });
  }
  pen.text((left + right) / 2, axis + 26, scene.axis, { size: 12, color: theme.muted, align: "center" });
  drawReasons(pen, scene, layout);
}

function reasonBars(scene, { reasons, left, right }) {
  const ends = scene.reasons.flatMap(({ base, value }) => [base, base + value]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const perUnit = (REASONS_PX - 40) / Math.max(high - low, 1e-9);
  const y = (value) => reasons + 20 + (high - value) * perUnit;
  const each = (right - left) / scene.reasons.length;
  return scene.reasons.map((reason, index) => {
    const [from, to] = [y(reason.base), y(reason.base + reason.value)];
    return { ...reason, left: left + index * each, width: each, top: Math.min(from, to), bottom: Math.max(from, to), zero: y(0) };
  });
}

function drawReasons(pen, scene, layout) {
  const { theme } = pen;
  const bars = reasonBars(scene, layout);
  pen.text(layout.left, layout.reasons - 8, "Reasons", { size: 15, weight: 600 });
  pen.text(layout.left + 76, layout.reasons - 8, scene.total, { color: theme.muted });
  pen.path([[layout.left, bars[0].zero], [layout.right, bars[0].zero]], { stroke: theme.muted, line: 1 });
  bars.forEach((bar, index) => {
    const colour = index === bars.length - 1 ? theme.muted : bar.value > 0 ? theme.bad : theme.good;
    const middle = bar.left + bar.width / 2;
    pen.rect(middle - bar.width * 0.3, bar.top, bar.width * 0.6, Math.max(1, bar.bottom - bar.top), colour, { radius: 3 });
    const above = bar.value < 0 ? bar.bottom + 10 : bar.top - 10;
    pen.text(middle, above, signedText(bar.value), { size: 12, align: "center" });
    wrapped(bar.label, bar.width - 6, { size: 11 }).forEach((line, number) => {
      const y = layout.reasons + REASONS_PX + 8 + 14 * number;
      pen.text(middle, y, line, { size: 11, color: theme.muted, align: "center" });
    });
  });
}

function errorsFacts(scene, layout, x, y) {
  const bar = reasonBars(scene, layout).find(({ left, width }) => x >= left && x < left + width);
  if (y >= layout.reasons) return bar ? [bar.label, `${signedText(bar.value)}${scene.unit}`] : null;
  const scale = errorsScale(scene, layout);
  const index = Math.floor((y - layout.top) / (STRIP_PX + STRIP_GAP));
  const strip = scene.strips[index];
  if (!strip) return null;
  const distance = (tile) => Math.hypot(scale.x(scene.ends[tile]) - x, scale.y(index, strip.values[tile]) - y);
  const near = scene.ends.reduce((best, _, tile) => (distance(tile) < distance(best) ? tile : best), 0);
  if (distance(near) > 12) return null;
  const [column, row] = scene.tiles[near];
  return [`${scene.names[scene.stage[near]]} tile (${column}, ${row})`, `${strip.label} ${signedText(strip.values[near])}${scene.unit} against the prediction`];
}

const render = sceneRenderer({ name: "errors", layout: errorsLayout, draw: drawErrors, facts: errorsFacts });

export default { render };
