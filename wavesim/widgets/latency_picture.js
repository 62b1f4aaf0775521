// Warps of one SM over time, the memory below them, and bandwidth over bytes in flight.

const [WARPS_LEFT, WARPS_RIGHT, WARPS_PX, MEMORY_PX, CURVE_PX] = [112, 24, 200, 22, 200];
const [LEAST_ISSUE_PX, DOT_PX] = [2, 5];
const DOINGS = { issue: "issues loads", memory: "waits for memory", barrier: "waits at a barrier" };

function latencyLayout(scene, width) {
  const top = headingHeight(scene.title, [scene.subtitle], width - 40) + 10;
  const row = Math.max(4, Math.min(22, WARPS_PX / scene.warps.length));
  const memory = top + row * scene.warps.length + 10;
  const curve = memory + MEMORY_PX + 96;
  return { top, row, memory, curve, left: WARPS_LEFT, right: width - WARPS_RIGHT, height: curve + CURVE_PX + 78 };
}

function drawLatency(pen, scene, layout) {
  drawHeading(pen, scene.title, [scene.subtitle], 20, pen.width - 40);
  drawWarps(pen, scene, layout);
  drawMemory(pen, scene, layout);
  drawCycles(pen, scene, layout);
  drawCurve(pen, scene, layout);
}

function cyclesToX(scene, { left, right }) {
  return (cycle) => left + (cycle / scene.end) * (right - left);
}

function drawWarps(pen, scene, layout) {
  const { theme } = pen;
  const at = cyclesToX(scene, layout);
  const words = layout.row >= 11 ? (warp) => `warp ${warp}` : (warp) => (warp % 8 ? "" : `warp ${warp}`);
  scene.warps.forEach((spans, warp) => {
    const y = layout.top + warp * layout.row;
    const height = layout.row - (layout.row > 6 ? 2 : 0.5);
    pen.text(layout.left - 10, y + height / 2, words(warp), { size: 11, color: theme.muted, align: "right" });
    for (const [start, end, doing] of spans) {
      if (doing !== "issue") pen.rect(at(start), y, at(end) - at(start), height, "waiting");
    }
    for (const [start, end, doing] of spans) {
      if (doing === "issue") pen.rect(at(start), y, Math.max(LEAST_ISSUE_PX, at(end) - at(start)), height, theme.stages[0]);
    }
  });
}

function drawMemory(pen, scene, layout) {
  const { theme } = pen;
  const at = cyclesToX(scene, layout);
  pen.text(layout.left - 10, layout.memory + MEMORY_PX / 2, "memory", { size: 13, weight: 600, align: "right" });
  pen.rect(layout.left, layout.memory, layout.right - layout.left, MEMORY_PX, "idle", { radius: 4, stroke: theme.idle_hatch });
  for (const [start, end] of scene.memory) pen.rect(at(start), layout.memory, at(end) - at(start), MEMORY_PX, theme.stages[1]);
}

function drawCycles(pen, scene, layout) {
  const y = layout.memory + MEMORY_PX;
  const at = cyclesToX(scene, layout);
  const step = tickStep(scene.end, 8);
  for (let cycle = 0; cycle <= scene.end; cycle += step) {
    pen.path([[at(cycle), y + 2], [at(cycle), y + 7]], { stroke: pen.theme.muted, line: 1 });
    pen.text(at(cycle), y + 16, cycle.toLocaleString("en"), { size: 11, color: pen.theme.muted, align: "center" });
  }
  pen.text(layout.left - 10, y + 16, "cycles", { size: 11, color: pen.theme.muted, align: "right" });
  drawKey(pen, layout.left, y + 36, [
    ["issues a load", swatch(pen, pen.theme.stages[0])],
    ["waits for memory", swatch(pen, "waiting")],
    ["memory serves a load", swatch(pen, pen.theme.stages[1])],
    ["memory idle", swatch(pen, "idle")],
  ]);
}

function curveScale(scene, layout) {
  const [first, last] = [scene.curve[0][0], scene.curve.at(-1)[0]];
  const x = (bytes) => layout.left + (Math.log2(Math.max(bytes, first) / first) / Math.log2(last / first)) * (layout.right - layout.left);
  const y = (share) => layout.curve + (1 - share / 1.05) * CURVE_PX;
  return { x, y, first, last };
}

function drawCurve(pen, scene, layout) {
  const { theme } = pen;
  const { x, y, first, last } = curveScale(scene, layout);
  const right = layout.right;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    pen.path([[layout.left, y(share)], [right, y(share)]], { stroke: theme.grid, line: 1 });
    pen.text(layout.left - 10, y(share), `${100 * share} %`, { size: 11, color: theme.muted, align: "right" });
  }
  for (let bytes = first; bytes <= last; bytes *= 2) {
    const words = bytes < 1024 ? "½" : String(bytes / 1024);
    pen.text(x(bytes), y(0) + 14, words, { size: 11, color: theme.muted, align: "center" });
  }
  pen.text(right, y(0) + 32, "KiB in flight on an SM", { size: 11, color: theme.muted, align: "right" });
  pen.text(layout.left, layout.curve - 20, "share of the bandwidth", { size: 13, weight: 600 });
  pen.path([[x(scene.needed), y(0)], [x(scene.needed), y(1.05)]], { stroke: theme.muted, line: 1, dash: [2, 4] });
  pen.path(scene.curve.map(([bytes, law]) => [x(bytes), y(law)]), { stroke: theme.muted, line: 2, dash: [6, 5] });
  pen.path(scene.curve.map(([bytes, , queued]) => [x(bytes), y(queued)]), { stroke: theme.stages[0], line: 2.5 });
  for (const [bytes, share] of scene.measured) drawDot(pen, x(bytes), y(share), null, theme.stages[2]);
  drawDot(pen, x(scene.inFlight), y(scene.share), theme.stages[1], theme.background);
  drawCurveKey(pen, scene, layout, y(0) + 52);
}

function drawDot(pen, x, y, fill, stroke) {
  pen.rect(x - DOT_PX, y - DOT_PX, 2 * DOT_PX, 2 * DOT_PX, fill, { radius: DOT_PX, stroke, line: 2 });
}

function drawCurveKey(pen, scene, layout, y) {
  const { theme } = pen;
  const stroke = (style) => (x, top) => pen.path([[x - 4, top], [x + 14, top]], style);
  const entries = [
    ["this SM, simulated", (x, top) => drawDot(pen, x + 6, top, theme.stages[1], theme.background)],
    ["Little's law", stroke({ stroke: theme.muted, line: 2, dash: [6, 5] })],
    ["with queues at the memory's channels, formula", stroke({ stroke: theme.stages[0], line: 2.5 })],
  ];
  if (scene.measured.length) entries.push([scene.measuredOn, (x, top) => drawDot(pen, x + 6, top, null, theme.stages[2])]);
  drawKey(pen, layout.left, y, entries);
}

function latencyFacts(scene, layout, x, y) {
  if (x < layout.left || x > layout.right) return null;
  if (y >= layout.curve) {
    const { first, last } = curveScale(scene, layout);
    const bytes = first * (last / first) ** ((x - layout.left) / (layout.right - layout.left));
    const near = scene.curve.reduce((a, b) => (Math.abs(Math.log(b[0] / bytes)) < Math.abs(Math.log(a[0] / bytes)) ? b : a));
    const percent = (share) => `${(100 * share).toFixed(0)} %`;
    return [`${(near[0] / 1024).toFixed(1)} KiB in flight`, `Little's law: ${percent(near[1])}`, `with queues: ${percent(near[2])}`];
  }
  const warp = Math.floor((y - layout.top) / layout.row);
  const cycle = ((x - layout.left) / (layout.right - layout.left)) * scene.end;
  const span = scene.warps[warp]?.find(([start, end]) => start <= cycle && cycle < end);
  return span ? [`warp ${warp}`, `${DOINGS[span[2]]}, cycles ${span[0]} to ${span[1]}`] : null;
}

const render = sceneRenderer({ name: "latency", layout: latencyLayout, draw: drawLatency, facts: latencyFacts });

export default { render };
