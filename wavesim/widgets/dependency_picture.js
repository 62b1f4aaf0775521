// Tile grids side by side. The chosen tile is framed; what it reads and who reads it stand in full colour;
// a green line runs around all tiles that post the semaphores it awaits or posts itself.

const EDGE = 24;
const GAP_PX = 64;
const NARROWEST_PX = 8;
const TALLEST_PX = 420;
const MOST_ARROWS = 16;
const TINTS = ["38", "66"]; // neighbouring semaphores differ, and both are weaker than a tile that is meant

function unpackDependencies(scene) {
  return {
    ...scene,
    stages: scene.stages.map((stage) => ({ ...stage, places: numbers(stage.places) })),
    needs: scene.needs.map((need) => ({ ...need, boxes: numbers(need.boxes) })),
  };
}

function rangeOf(from, to, step) {
  const found = [];
  for (let i = from; i < to; i += step) found.push(i);
  return found;
}

// Row-major tiles that a need's consumer tile reads.
function tilesRead(scene, need, tile) {
  const [x0, x1, y0, y1] = need.boxes.subarray(4 * tile, 4 * tile + 4);
  const columns = scene.stages[need.producer].grid[0];
  return rangeOf(y0, y1, need.steps[1]).flatMap((y) => rangeOf(x0, x1, need.steps[0]).map((x) => y * columns + x));
}

// What one tile has to do with others: per stage the tiles it `reads` and that are `readers` of it, and the
// semaphores it awaits and posts, each with its dependency.
function relationsOf(scene, { stage, tile }) {
  const found = { reads: new Map(), readers: new Map(), awaits: [], posts: [] };
  const add = (map, key, tiles) => map.set(key, new Set([...(map.get(key) ?? []), ...tiles]));
  for (const need of scene.needs) {
    if (need.consumer === stage) add(found.reads, need.producer, tilesRead(scene, need, tile));
    if (need.producer !== stage) continue;
    const [columns, rows] = scene.stages[need.consumer].grid;
    const readers = rangeOf(0, columns * rows, 1).filter((reader) => tilesRead(scene, need, reader).includes(tile));
    add(found.readers, need.consumer, readers);
  }
  const name = scene.stages[stage].name;
  scene.dependencies.forEach((dependency) => {
    if (dependency.producer === name) found.posts.push([dependency, dependency.semaphores[tile]]);
    if (dependency.consumer !== name) return;
    const producer = scene.stages.findIndex((info) => info.name === dependency.producer);
    const semaphores = new Set([...(found.reads.get(producer) ?? [])].map((one) => dependency.semaphores[one]));
    for (const semaphore of [...semaphores].sort((a, b) => a - b)) found.awaits.push([dependency, semaphore]);
  });
  return found;
}

function tileName(scene, stage, tile) {
  const [columns] = scene.stages[stage].grid;
  return `(${tile % columns}, ${Math.floor(tile / columns)})`;
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

// Title and lines on the chosen tile.
function dependencyWords(scene, chosen, relations) {
  const stage = scene.stages[chosen.stage];
  const place = stage.places[chosen.tile] + 1;
  const name = `Tile ${tileName(scene, chosen.stage, chosen.tile)} of ${stage.name}`;
  const listed = (map) => [...map].map(([index, tiles]) => `${plural(tiles.size, "tile")} of ${scene.stages[index].name}`);
  const deeds = [];
  if (relations.reads.size) deeds.push(`reads ${listed(relations.reads).join(" and ")}`);
  if (relations.awaits.length) deeds.push(`awaits ${plural(relations.awaits.length, "semaphore")}`);
  if (relations.readers.size) deeds.push(`is read by ${listed(relations.readers).join(" and ")}`);
  const lines = [`number ${place} of ${stage.places.length} in ${stage.order} order`];
  if (relations.awaits.length) lines.push(`awaits ${someSemaphores(relations.awaits)}`);
  if (relations.posts.length) lines.push(`posts ${someSemaphores(relations.posts)}`);
  return { title: `${name} ${deeds.join(", ") || "reads nothing and is read by nothing"}`, line: lines.join(" · ") };
}

function someSemaphores(pairs) {
  const names = pairs.slice(0, 4).map(([dependency, semaphore]) =>
    `${semaphoreName(dependency, semaphore)} = ${dependency.values[semaphore]}`);
  return names.join(", ") + (pairs.length > 4 ? ` and ${pairs.length - 4} more` : "");
}

// Grids from left to right in launch order, on several lines where one is too narrow.
function dependencyLayout(scene, width) {
  const columns = scene.stages.reduce((sum, stage) => sum + stage.grid[0], 0);
  const rows = Math.max(...scene.stages.map((stage) => stage.grid[1]));
  const room = width - 2 * EDGE - GAP_PX * (scene.stages.length - 1);
  let cellWidth = Math.min(52, Math.max(NARROWEST_PX, room / columns));
  const cellHeight = Math.min(44, TALLEST_PX / rows, 3 * cellWidth);
  cellWidth = Math.min(cellWidth, 3 * cellHeight);
  let [left, top] = [EDGE, headingHeight("x".repeat(70), [scene.subtitle, "x"], width - 2 * EDGE) + 40];
  let bottom = top;
  const grids = scene.stages.map((stage) => {
    const [across, down] = [stage.grid[0] * cellWidth, stage.grid[1] * cellHeight];
    if (left > EDGE && left + across > width - EDGE) [left, top] = [EDGE, bottom + 44];
    const grid = { left, top, cellWidth, cellHeight, columns: stage.grid[0], rows: stage.grid[1] };
    left += Math.max(across, textWidth(stage.name, { size: 15, weight: 600 })) + GAP_PX;
    bottom = Math.max(bottom, top + down);
    return grid;
  });
  return { grids, height: bottom + 66 };
}

function cellOf(grid, tile) {
  const [x, y] = [tile % grid.columns, Math.floor(tile / grid.columns)];
  return [grid.left + x * grid.cellWidth, grid.top + y * grid.cellHeight];
}

function drawDependencies(pen, scene, layout, chosen, relations) {
  const { theme, width } = pen;
  const { title, line } = dependencyWords(scene, chosen, relations);
  drawHeading(pen, title, [line, scene.subtitle], EDGE, width - 2 * EDGE);
  layout.grids.forEach((grid, index) => {
    const stage = scene.stages[index];
    pen.text(grid.left, grid.top - 16, stage.name, { size: 15, weight: 600 });
    const beside = grid.left + textWidth(stage.name, { size: 15, weight: 600 }) + 8;
    if (grid.columns * grid.cellWidth > 170) {
      pen.text(beside, grid.top - 16, `${grid.rows} × ${grid.columns} tiles`, { color: theme.muted });
    }
    drawGrid(pen, scene, grid, index, chosen, relations);
  });
  drawPosters(pen, scene, layout, relations);
  drawArrows(pen, scene, layout, chosen, relations);
  const [left, top] = cellOf(layout.grids[chosen.stage], chosen.tile);
  const { cellWidth, cellHeight } = layout.grids[chosen.stage];
  // Outside the green line, which may run around this one tile.
  pen.rect(left - 3.5, top - 3.5, cellWidth + 7, cellHeight + 7, null, { radius: 6, stroke: theme.ink, line: 3 });
  drawDependencyKey(pen, layout.height - 34, layout.grids.some(isNumbered));
}

// Whether a grid's tiles have room for their numbers.
function isNumbered(grid) {
  return grid.cellWidth >= 24 && grid.cellHeight >= 15;
}

function drawGrid(pen, scene, grid, index, chosen, relations) {
  const { theme } = pen;
  const stage = scene.stages[index];
  const colour = theme.stages[index % theme.stages.length];
  const dependency = scene.dependencies.find((one) => one.producer === stage.name);
  const meant = new Set([...(relations.reads.get(index) ?? []), ...(relations.readers.get(index) ?? [])]);
  const [inset, radius] = grid.cellWidth >= 8 && grid.cellHeight >= 8 ? [1, 3] : [0.3, 0];
  const hasNumbers = isNumbered(grid);
  for (let tile = 0; tile < stage.places.length; tile++) {
    const [left, top] = cellOf(grid, tile);
    const isMeant = meant.has(tile) || (chosen.stage === index && chosen.tile === tile);
    const tint = dependency ? TINTS[dependency.semaphores[tile] % 2] : TINTS[0];
    const [w, h] = [grid.cellWidth - 2 * inset, grid.cellHeight - 2 * inset];
    pen.rect(left + inset, top + inset, w, h, isMeant ? colour : `${colour}${tint}`, { radius });
    if (!hasNumbers) continue;
    const color = isMeant ? theme.stage_text[index % theme.stage_text.length] : theme.ink;
    const style = { size: 12, weight: isMeant ? 600 : 400, color, align: "center" };
    pen.text(left + grid.cellWidth / 2, top + grid.cellHeight / 2, String(stage.places[tile] + 1), style);
  }
}

// A line along every edge between a tile that posts one of the semaphores and one that does not.
function drawPosters(pen, scene, layout, relations) {
  for (const [dependency, semaphore] of [...relations.awaits, ...relations.posts].slice(0, 200)) {
    const index = scene.stages.findIndex((stage) => stage.name === dependency.producer);
    const grid = layout.grids[index];
    const isIn = (x, y) =>
      x >= 0 && y >= 0 && x < grid.columns && y < grid.rows && dependency.semaphores[y * grid.columns + x] === semaphore;
    for (let y = 0; y < grid.rows; y++) {
      for (let x = 0; x < grid.columns; x++) {
        if (isIn(x, y)) drawEdges(pen, grid, x, y, isIn);
      }
    }
  }
}

function drawEdges(pen, grid, x, y, isIn) {
  const [left, top] = [grid.left + x * grid.cellWidth, grid.top + y * grid.cellHeight];
  const [right, bottom] = [left + grid.cellWidth, top + grid.cellHeight];
  const style = { stroke: pen.theme.good, line: 2.4 };
  if (!isIn(x, y - 1)) pen.path([[left, top], [right, top]], style);
  if (!isIn(x, y + 1)) pen.path([[left, bottom], [right, bottom]], style);
  if (!isIn(x - 1, y)) pen.path([[left, top], [left, bottom]], style);
  if (!isIn(x + 1, y)) pen.path([[right, top], [right, bottom]], style);
}

// From what is read to the tile that reads it, one arrow per tile row.
function drawArrows(pen, scene, layout, chosen, relations) {
  const links = [];
  for (const [index, tiles] of relations.reads) {
    for (const tile of rowEnds(tiles, layout.grids[index], 1)) links.push([index, tile, chosen.stage, chosen.tile]);
  }
  for (const [index, tiles] of relations.readers) {
    for (const tile of rowEnds(tiles, layout.grids[index], -1)) links.push([chosen.stage, chosen.tile, index, tile]);
  }
  if (links.length <= MOST_ARROWS) for (const link of links) drawArrow(pen, layout, link);
}

// The last tile of each row, or with direction -1 the first.
function rowEnds(tiles, grid, direction) {
  const ends = new Map();
  for (const tile of tiles) {
    const row = Math.floor(tile / grid.columns);
    if (!ends.has(row) || direction * (tile - ends.get(row)) > 0) ends.set(row, tile);
  }
  return ends.values();
}

function drawArrow(pen, layout, [from, tile, to, reader]) {
  const [a, b] = [layout.grids[from], layout.grids[to]];
  const [left, top] = cellOf(a, tile);
  const [right, low] = cellOf(b, reader);
  const [x0, y0] = [left + a.cellWidth + 2, top + a.cellHeight / 2];
  const [x1, y1] = [right - 4, low + b.cellHeight / 2];
  const angle = Math.atan2(y1 - y0, x1 - x0);
  pen.path([[x0, y0], [x1, y1]], { stroke: pen.theme.ink, line: 1.2 });
  const barb = (turn) => [x1 - 9 * Math.cos(angle + turn), y1 - 9 * Math.sin(angle + turn)];
  pen.path([[x1, y1], barb(0.35), barb(-0.35)], { fill: pen.theme.ink });
}

function drawDependencyKey(pen, y, hasNumbers) {
  const { theme } = pen;
  const two = (x, middle) => {
    pen.rect(x, middle - 6, 6, 12, theme.stages[0]);
    pen.rect(x + 6, middle - 6, 6, 12, theme.stages[1]);
  };
  const tints = (x, middle) => TINTS.forEach((tint, i) => pen.rect(x + 6 * i, middle - 6, 6, 12, `${theme.stages[0]}${tint}`));
  const order = ["order of processing, from 1; tiles count from 0", (x, middle) => pen.text(x + 6, middle, "1", { size: 12, weight: 600, align: "center" })];
  drawKey(pen, EDGE, y, [
    ["read by or reads the chosen tile", two],
    ["tiles that post the same semaphore", swatch(pen, null, { stroke: theme.good, line: 2.4 })],
    ["tints: neighbouring semaphores", tints],
    ...(hasNumbers ? [order] : []),
  ]);
}
