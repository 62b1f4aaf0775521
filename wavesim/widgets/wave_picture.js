// One instant of a trace: SM rows up to now, the tile grid of every kernel filling in, and semaphores
// counting up. Not yet issued is pale, waiting hatched, working framed and part filled, finished solid.

const GRID_PX = 200; // height kept for tile grids
const SEMAPHORE_PX = 190;
const BETWEEN_PX = 26;
const MOST_BARS = 24; // more semaphores are small cells

function waveLayout(scene, panel, width) {
  const top = headingHeight(scene.title, headLines(scene, panel), width - LEFT - 20) + 6;
  const row = rowHeight(panel.rows, 264);
  const grids = top + clockHeight(panel, row) + 62;
  const parts = gridPlaces(scene, panel, width, grids + 26);
  const bottom = Math.max(...parts.map((part) => part.top + part.height));
  return { top, row, grids, parts, legend: bottom + 28, height: bottom + 66 };
}

// Each kernel's grid, and behind a producer its semaphores, from left to right.
function gridPlaces(scene, panel, width, top) {
  const boxes = scene.stages.flatMap((stage, index) => [
    { kind: "grid", stage: index, columns: stage.grid[0], rows: stage.grid[1] },
    ...panel.dependencies.flatMap((dependency, number) =>
      dependency.producer === stage.name ? [{ kind: "semaphores", dependency: number }] : []),
  ]);
  const counters = boxes.filter((box) => box.kind === "semaphores").length;
  const room = width - LEFT - 20 - BETWEEN_PX * (boxes.length - 1) - SEMAPHORE_PX * counters;
  const columns = boxes.reduce((sum, box) => sum + (box.columns ?? 0), 0);
  const rows = Math.max(...scene.stages.map((stage) => stage.grid[1]));
  let cellWidth = Math.min(44, room / columns);
  const cellHeight = Math.min(44, GRID_PX / rows, 3 * cellWidth);
  cellWidth = Math.min(cellWidth, 3 * cellHeight);
  let left = LEFT;
  return boxes.map((box) => {
    const size = box.kind === "grid"
      ? { width: box.columns * cellWidth, height: box.rows * cellHeight }
      : { width: SEMAPHORE_PX, height: Math.max(rows * cellHeight, 60) };
    const place = { ...box, ...size, left, top, cellWidth, cellHeight };
    // A heading needs room, however small its grid is.
    left += Math.max(size.width, 150) + BETWEEN_PX;
    return place;
  });
}

function drawWave(pen, scene, panel, layout, state, step) {
  const { theme, width } = pen;
  drawHeading(pen, scene.title, headLines(scene, panel), LEFT, width - LEFT - 20);
  const endNs = panel.endNs ?? panel.makespan; // beside a longer trace, the axis is that one's
  const axis = { left: LEFT, right: width - RIGHT, perNs: (width - LEFT - RIGHT) / endNs };
  const ground = layout.top + clockHeight(panel, layout.row) + 6;
  drawAxis(pen, scene, axis, ground, layout.top + 24, [0, endNs]);
  const clocked = { ...panel, label: timeText(state.ns, scene.unit) };
  const lines = panel.boundaries.length ? [clockFacts(panel, state), ""] : [clockFacts(panel, state)];
  const place = drawPanel(pen, clocked, scene, { top: layout.top, span: [0, endNs], row: layout.row, until: state.ns, lines });
  if (state.ns < panel.makespan) {
    const x = place.left + state.ns * place.perNs;
    pen.path([[x, place.top - 6], [x, place.top + place.height + 6]], { stroke: theme.ink, line: 1.6 });
  }
  for (const part of layout.parts) {
    if (part.kind === "grid") drawTiles(pen, scene, panel, part, state, step);
    else drawSemaphores(pen, panel, part, state, step);
  }
  drawStates(pen, scene, layout.legend);
  return place;
}

function headLines(scene, panel) {
  return [scene.subtitle, panel.source];
}

// A header line with the time, one for a kernel boundary if there is any, and the SM rows.
function clockHeight(panel, row) {
  return HEADER_LINE * (panel.boundaries.length ? 2 : 1) + 4 + panel.rows * row;
}

function clockFacts(panel, state) {
  const [busy, held] = [new Set(), new Set()];
  state.blocks.forEach((now, b) => {
    if (now === WORKING) busy.add(panel.blocks.sm[b]);
    if (now === WAITING) held.add(panel.blocks.sm[b]);
  });
  const waiting = held.size ? ` · ${held.size} with a block that waits` : "";
  return `${busy.size} of ${panel.smCount} SMs working${waiting}`;
}

function drawTiles(pen, scene, panel, part, state, step) {
  const { theme } = pen;
  const { stage, x, y, work, end } = panel.blocks;
  const info = scene.stages[part.stage];
  const slices = info.grid[2];
  let stepped = null;
  const unfinished = new Set();
  const [inset, radius] = part.cellWidth >= 7 && part.cellHeight >= 7 ? [1, 2] : [0.3, 0];
  const isLabelled = part.cellWidth >= 26 && part.cellHeight >= 16 && slices === 1;
  for (let b = 0; b < stage.length; b++) {
    if (stage[b] !== part.stage) continue;
    const [from, upto] = shareOfTile(panel.blocks, b, slices);
    const height = (upto - from) * part.cellHeight - 2 * inset;
    const left = part.left + x[b] * part.cellWidth + inset;
    const top = part.top + (y[b] + from) * part.cellHeight + inset;
    const width = part.cellWidth - 2 * inset;
    const colour = theme.stages[part.stage % theme.stages.length];
    const now = state.blocks[b];
    pen.rect(left, top, width, height, now === WAITING ? "waiting" : now === FINISHED ? colour : theme.idle, { radius });
    if (now === WORKING) {
      const share = Math.min(1, Math.max(0.08, (state.ns - work[b]) / Math.max(1, end[b] - work[b])));
      pen.rect(left, top + height * (1 - share), width, height * share, `${colour}99`, { radius });
      pen.rect(left + 0.5, top + 0.5, width - 1, height - 1, null, { radius, stroke: colour });
    }
    if (step && step.block === b) stepped = [left - 1, top - 1, width + 2, height + 2];
    if (now !== FINISHED) unfinished.add(y[b] * part.columns + x[b]);
    if (!isLabelled) continue;
    const color = now === FINISHED ? theme.stage_text[part.stage % theme.stage_text.length] : theme.ink;
    pen.text(left + width / 2, top + height / 2, tileLabel(panel, scene.stages, b), { size: 11, color, align: "center" });
  }
  if (stepped) pen.rect(...stepped, null, { radius: 3, stroke: theme.ink, line: 2 });
  const total = part.columns * part.rows;
  pen.text(part.left, part.top - 20, info.name, { size: 13, weight: 600 });
  const beside = part.left + textWidth(info.name, { weight: 600 }) + 8;
  pen.text(beside, part.top - 20, `${total - unfinished.size} / ${total} finished`, { size: 12, color: theme.muted });
}

// From where to where in its tile a row is: all of it, a split-K slice, or a part that Stream-K has cut.
function shareOfTile(blocks, b, slices) {
  if (isPart(blocks, b)) return [blocks.k_first[b] / blocks.k_of[b], blocks.k_upto[b] / blocks.k_of[b]];
  return slices > 1 ? [blocks.z[b] / slices, (blocks.z[b] + 1) / slices] : [0, 1];
}

function drawSemaphores(pen, panel, part, state, step) {
  const { theme } = pen;
  const dependency = panel.dependencies[part.dependency];
  const values = state.values[part.dependency];
  const ready = values.reduce((sum, value, s) => sum + (value >= dependency.values[s] ? 1 : 0), 0);
  pen.text(part.left, part.top - 20, "semaphores", { weight: 600 });
  pen.text(part.left + 94, part.top - 20, `${ready} / ${values.length} ready`, { size: 12, color: theme.muted });
  semaphoreCells(part, values.length).forEach(([left, top, width, height], s) => {
    const share = Math.min(1, values[s] / dependency.values[s]);
    const isReady = share >= 1;
    pen.rect(left, top, width, height, theme.idle, { radius: 2 });
    if (share) pen.rect(left, top, width * share, height, isReady ? theme.good : `${theme.good}77`, { radius: 2 });
    const isNow = step && step.dependency === part.dependency && step.semaphore === s;
    if (isNow) pen.rect(left - 1, top - 1, width + 2, height + 2, null, { radius: 3, stroke: theme.ink, line: 2 });
    if (height < 11 || width < 60) return;
    const words = `${dependency.policy} ${s}: ${values[s]} / ${dependency.values[s]}${isReady ? " ✓" : ""}`;
    pen.text(left + 6, top + height / 2, words, { size: Math.min(12, height - 1), color: isReady ? theme.background : theme.ink });
  });
}

// Boxes of all semaphores: bars under each other, or cells in rows where they are many.
function semaphoreCells(part, count) {
  if (count <= MOST_BARS) {
    const pitch = Math.min(24, part.height / count);
    return Array.from({ length: count }, (_, s) => [part.left, part.top + s * pitch, part.width, pitch - 2]);
  }
  const size = Math.min(16, Math.sqrt((part.width * part.height) / count));
  const columns = Math.max(1, Math.floor(part.width / size));
  const pitch = Math.min(size, part.height / Math.ceil(count / columns));
  return Array.from({ length: count }, (_, s) => [
    part.left + (s % columns) * size, part.top + Math.floor(s / columns) * pitch, Math.max(1, size - 1), Math.max(1, pitch - 1),
  ]);
}

function drawStates(pen, scene, y) {
  const { theme } = pen;
  const working = (x, middle) => {
    pen.rect(x, middle, 12, 6, `${theme.stages[0]}99`);
    pen.rect(x + 0.5, middle - 5.5, 11, 11, null, { radius: 2, stroke: theme.stages[0] });
  };
  drawKey(pen, LEFT, y, [
    ["not issued", swatch(pen, theme.idle)],
    ["waiting", swatch(pen, "waiting")],
    ["working", working],
    ["finished", swatch(pen, theme.stages[0])],
    ["semaphore ready", swatch(pen, theme.good)],
    ["idle SM", swatch(pen, "idle")],
  ]);
}
