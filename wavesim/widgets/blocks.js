// A trace's blocks: their arrays unpacked, where they are on a picture, and what is said of them.

// A trace's arrays, unpacked once.
function unpackPanel(panel) {
  const unpacked = (columns) =>
    Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, numbers(column)]));
  const [blocks, waits] = [unpacked(panel.blocks), unpacked(panel.waits)];
  // A tile's label stands where it first computes: up to the first wait amid its work, if there is one.
  const labelled = Float64Array.from(blocks.end);
  waits.start.forEach((ns, i) => {
    const b = waits.block[i];
    if (ns > blocks.work[b]) labelled[b] = Math.min(labelled[b], ns);
  });
  return { ...panel, blocks, waits, labelled, idle: unpacked(panel.idle) };
}

// Many SMs in the order of what they do: most tiles of the first kernel on top, then most tiles, then latest end. A hole
// is a rectangle then. Few SMs keep the order of their numbers.
function sortedBySm(panel) {
  const { smCount, slots, blocks, idle } = panel;
  if (smCount < SORTED_FROM) return panel;
  const work = Array.from({ length: smCount }, () => [0, 0, 0]);
  blocks.sm.forEach((sm, b) => {
    const [first, all, last] = work[sm];
    work[sm] = [first + (blocks.stage[b] === 0), all + 1, Math.max(last, blocks.end[b])];
  });
  const order = [...work.keys()].sort((a, b) => work[b][0] - work[a][0] || work[b][1] - work[a][1] || work[b][2] - work[a][2] || a - b);
  const rank = new Int32Array(smCount);
  order.forEach((sm, place) => (rank[sm] = place));
  const moved = (row) => rank[Math.floor(row / slots)] * slots + (row % slots);
  const rows = (column) => Int32Array.from(column, moved);
  return { ...panel, isSorted: true, blocks: { ...blocks, row: rows(blocks.row) }, idle: { ...idle, row: rows(idle.row) } };
}

// The block of another plan's panel that computes the same tile, or -1.
function sameTile({ blocks }, other, b) {
  const { stage, x, y, z } = other.blocks;
  return blocks.stage.findIndex((kind, i) => kind === stage[b] && blocks.x[i] === x[b] && blocks.y[i] === y[b] && blocks.z[i] === z[b]);
}

// The blocks that post the semaphores which a block has awaited.
function awaitedTiles(panel, scene, b) {
  const { blocks, waits, dependencies } = panel;
  const found = new Set();
  waits.block.forEach((block, i) => {
    if (block !== b || waits.dependency[i] < 0) return;
    const { producer, semaphores } = dependencies[waits.dependency[i]];
    const stage = scene.stages.findIndex(({ name }) => name === producer);
    blocks.stage.forEach((kind, at) => {
      const tile = blocks.y[at] * scene.stages[stage].grid[0] + blocks.x[at];
      if (kind === stage && semaphores[tile] === waits.semaphore[i]) found.add(at);
    });
  });
  return [...found];
}

function timeText(ns, unit) {
  const value = ns / unit.ns;
  if (!unit.symbol) return `t = ${Number(value.toFixed(2))}`;
  const digits = value >= 1000 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit.symbol}`;
}

function spanText(ns, unit) {
  const text = timeText(ns, unit).replace("t = ", "");
  return unit.symbol ? text : `${text} tile time${text === "1" ? "" : "s"}`;
}

// Whether a row is a part of a tile that Stream-K has cut.
function isPart(blocks, b) {
  return blocks.k_of !== undefined && blocks.k_upto[b] - blocks.k_first[b] < blocks.k_of[b];
}

// Letter and number of a block as on its tile: "P4", "C17.1" for a slice or part of a split tile.
function tileLabel(panel, stages, block) {
  const { stage, x, y, z } = panel.blocks;
  const [columns, , slices] = stages[stage[block]].grid;
  const isSplit = slices > 1 || isPart(panel.blocks, block);
  return `${stages[stage[block]].letter}${y[block] * columns + x[block]}${isSplit ? `.${z[block]}` : ""}`;
}

// The block at a place of a panel that has been drawn, or -1.
function blockAt(panel, place, x, y) {
  const row = Math.floor((y - place.top) / place.row);
  if (x < place.seenLeft || x > place.right || row < 0 || row >= panel.rows) return -1;
  const ns = (x - place.left) / place.perNs;
  const { blocks } = panel;
  for (let b = 0; b < blocks.row.length; b++) {
    if (blocks.row[b] <= row && row < blocks.row[b] + blocks.span[b] && blocks.issue[b] <= ns && ns < blocks.end[b]) return b;
  }
  return -1;
}

// What hovering says of a block: tile, SM, times, semaphores.
function blockFacts(panel, scene, b) {
  const { stage, x, y, z, sm, slot, issue, start, end, wait } = panel.blocks;
  const { unit } = scene;
  const info = scene.stages[stage[b]];
  const { k_first: first, k_upto: upto, k_of: of } = panel.blocks;
  const part = isPart(panel.blocks, b) ? `, part: K iterations ${first[b]} to ${upto[b]} of ${of[b]}` : "";
  const slice = info.grid[2] > 1 ? `, slice ${z[b]}` : part;
  const lines = [
    `${info.name} tile (${x[b]}, ${y[b]})${slice}`,
    `SM ${sm[b]}${panel.slots > 1 ? `, slot ${slot[b]}` : ""} · ${panel.label}`,
    `issued ${timeText(issue[b], unit)} · started ${timeText(start[b], unit)} · ended ${timeText(end[b], unit)}`,
    `${spanText(end[b] - start[b] - wait[b], unit)} working, ${spanText(wait[b], unit)} waiting`,
  ];
  for (let i = 0; i < panel.waits.block.length && lines.length < 7; i++) {
    if (panel.waits.block[i] !== b || panel.waits.dependency[i] < 0) continue;
    const dependency = panel.dependencies[panel.waits.dependency[i]];
    const semaphore = panel.waits.semaphore[i];
    const span = spanText(panel.waits.end[i] - panel.waits.start[i], unit);
    lines.push(`awaited ${semaphoreName(dependency, semaphore)} = ${dependency.values[semaphore]} for ${span}`);
  }
  for (const dependency of panel.dependencies) {
    if (dependency.producer !== info.name) continue;
    const semaphore = dependency.semaphores[y[b] * info.grid[0] + x[b]];
    lines.push(`posts ${semaphoreName(dependency, semaphore)}`);
  }
  return lines;
}

function semaphoreName(dependency, semaphore) {
  const kind = ["row", "tile"].includes(dependency.policy) ? dependency.policy : `${dependency.policy} semaphore`;
  return `${kind} ${semaphore} of ${dependency.producer}`;
}
