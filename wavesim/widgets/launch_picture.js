// Launches from the device on one time axis: the pool of pending launches with the calls that it lost, grids by
// depth, and the SMs that hold a block. A grid's row is hatched from its call to its start, full while its blocks
// work, and outlined while it waits for what it launched.

const [LAUNCH_LEFT, LAUNCH_RIGHT, POOL_PX, LOST_PX, GRID_PX, SMS_PX, PART_PX] = [132, 26, 96, 10, 22, 64, 30];

function launchText(ns) {
  const us = ns / 1000;
  return `${us.toLocaleString("en", { maximumFractionDigits: us < 100 ? 1 : 0 })} µs`;
}

function launchLayout(scene, width) {
  const pool = headingHeight(scene.title, [scene.subtitle], width - 40) + PART_PX + LOST_PX;
  const grids = pool + POOL_PX + PART_PX;
  const sms = grids + scene.grids.length * GRID_PX + PART_PX;
  const ground = sms + SMS_PX + 6;
  const [left, right] = [LAUNCH_LEFT, width - LAUNCH_RIGHT];
  return { pool, grids, sms, ground, left, right, perNs: (right - left) / scene.endNs, height: ground + 96 };
}

function drawLaunches(pen, scene, layout) {
  const { theme } = pen;
  const at = (ns) => layout.left + ns * layout.perNs;
  drawHeading(pen, scene.title, [scene.subtitle], 20, pen.width - 40);
  drawTimeAxis(pen, scene, layout, at);
  const most = Math.max(scene.pool, scene.mostPending);
  const limit = layout.pool + POOL_PX * (1 - scene.pool / most);
  const isNear = scene.mostPending > scene.pool / 16;
  const top = isNear ? most : Math.max(1, scene.mostPending);
  part(pen, layout, layout.pool - LOST_PX, "Launches that are called and have not begun");
  steps(pen, layout, layout.pool, POOL_PX, scene.pending.map(([ns, count]) => [ns, count / top]), theme.stages[0], at);
  scale(pen, layout, layout.pool, POOL_PX, top);
  if (isNear) pen.path([[layout.left, limit], [layout.right, limit]], { stroke: theme.bad, line: 1.5, dash: [6, 4] });
  for (const [ns] of scene.lost) pen.rect(at(ns), layout.pool - LOST_PX, 2, LOST_PX - 2, theme.bad);
  part(pen, layout, layout.grids, scene.left ? `The parent; ${scene.left.toLocaleString("en")} children are not drawn` : "Grids");
  scene.grids.forEach((grid, index) => drawGrid(pen, scene, grid, layout.grids + index * GRID_PX, layout, at));
  part(pen, layout, layout.sms, "SMs that hold a block");
  steps(pen, layout, layout.sms, SMS_PX, scene.busy, theme.stages[1], at);
  scale(pen, layout, layout.sms, SMS_PX, scene.smCount);
  drawLaunchKey(pen, scene, layout, isNear);
}

function drawTimeAxis(pen, scene, { pool, ground, left, right }, at) {
  const { theme } = pen;
  const step = tickStep(scene.endNs / 1000, (right - left) / 90);
  for (let us = 0; us * 1000 <= scene.endNs * 1.0001; us += step) {
    pen.path([[at(us * 1000), pool], [at(us * 1000), ground]], { stroke: theme.grid, line: 1, dash: [2, 3] });
    pen.text(at(us * 1000), ground + 14, Number(us.toFixed(6)).toLocaleString("en"), { size: 12, color: theme.muted, align: "center" });
  }
  pen.text((left + right) / 2, ground + 34, "time (µs)", { size: 12, color: theme.muted, align: "center" });
}

function part(pen, layout, y, words) {
  pen.text(20, y - 13, words, { size: 13, weight: 600 });
}

function scale(pen, layout, y, height, most) {
  const style = { size: 11, color: pen.theme.muted, align: "right" };
  pen.text(layout.left - 10, y + 6, most.toLocaleString("en"), style);
  pen.text(layout.left - 10, y + height - 6, "0", style);
}

function steps(pen, { left, right }, y, height, values, fill, at) {
  const ground = y + height;
  pen.rect(left, y, right - left, height, pen.theme.card, { radius: 3 });
  const points = [[left, ground]];
  values.forEach(([ns, share], index) => {
    if (index) points.push([at(ns), ground - values[index - 1][1] * height]);
    points.push([at(ns), ground - share * height]);
  });
  points.push([right, points.at(-1)[1]], [right, ground]);
  pen.path(points, { fill });
}

function drawGrid(pen, scene, grid, y, layout, at) {
  const { theme } = pen;
  const [top, height] = [y + 2, GRID_PX - 4];
  const colour = grid.stream === "tail" ? 2 : grid.depth % 2;
  pen.rect(layout.left, top, layout.right - layout.left, height, theme.card, { radius: 3 });
  pen.text(layout.left - 10, y + GRID_PX / 2, grid.name, { size: 12, color: theme.muted, align: "right" });
  if (grid.lost) {
    pen.rect(at(grid.called), top, 3, height, theme.bad);
    pen.text(at(grid.called) + 8, y + GRID_PX / 2, "lost", { size: 11, color: theme.ink });
    return;
  }
  if (grid.start > grid.called) pen.rect(at(grid.called), top + 3, at(grid.start) - at(grid.called), height - 6, "waiting", { radius: 2 });
  if (grid.end > grid.work) pen.rect(at(grid.work), top + 3, at(grid.end) - at(grid.work), height - 6, null, { radius: 2, stroke: theme.stages[colour], line: 1.5 });
  pen.rect(at(grid.start), top, Math.max(1.5, at(grid.work) - at(grid.start)), height, theme.stages[colour], { radius: 3 });
}

function drawLaunchKey(pen, scene, { ground }, isNear) {
  const { theme } = pen;
  const line = (x, y) => pen.path([[x - 2, y], [x + 14, y]], { stroke: theme.bad, line: 2, dash: [5, 3] });
  const hasTail = scene.grids.some((one) => one.stream === "tail");
  const isCalled = scene.grids.some((one) => one.start > one.called);
  const isWaiting = scene.grids.some((one) => one.end > one.work);
  drawKey(pen, 20, ground + 58, [
    ["a grid's blocks work", swatch(pen, theme.stages[0])],
    ...(hasTail ? [["a tail launch's", swatch(pen, theme.stages[2])]] : []),
    ...(isCalled ? [["called, not begun", swatch(pen, "waiting")]] : []),
    ...(isWaiting ? [["waits for what it launched, and holds no SM", swatch(pen, theme.background, { stroke: theme.stages[0], line: 1.5 })]] : []),
    ...(isNear ? [[`places in the pool: ${scene.pool.toLocaleString("en")}`, line]] : []),
    ...(scene.lost.length ? [["calls that are lost", swatch(pen, theme.bad)]] : []),
  ]);
}

function valueAt(values, ns) {
  return values.filter(([from]) => from <= ns).at(-1)?.[1] ?? 0;
}

function gridFacts(grid) {
  const head = `${grid.name}: depth ${grid.depth}, ${grid.stream === "host" ? "launched by the host" : `stream ${grid.stream}`}`;
  if (grid.lost) return [head, `called at ${launchText(grid.called)} and lost: ${grid.lost}`];
  const begun = `called at ${launchText(grid.called)}, begun at ${launchText(grid.start)}`;
  return [head, begun, `its blocks end at ${launchText(grid.work)}; complete at ${launchText(grid.end)}`];
}

function launchFacts(scene, layout, x, y) {
  if (x < layout.left || x > layout.right) return null;
  const ns = (x - layout.left) / layout.perNs;
  if (y >= layout.pool - LOST_PX && y < layout.pool + POOL_PX) {
    return [launchText(ns), `${valueAt(scene.pending, ns).toLocaleString("en")} launches pending`];
  }
  const grid = scene.grids[Math.floor((y - layout.grids) / GRID_PX)];
  if (y >= layout.grids && grid) return gridFacts(grid);
  if (y < layout.sms || y >= layout.sms + SMS_PX) return null;
  return [launchText(ns), `${Math.round(valueAt(scene.busy, ns) * scene.smCount)} of ${scene.smCount} SMs hold a block`];
}

const render = sceneRenderer({ name: "launches", layout: launchLayout, draw: drawLaunches, facts: launchFacts });

export default { render };
