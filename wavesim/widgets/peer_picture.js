// Several GPUs on one time axis: a thin row per SM, the links' use below, arrows where tiles cross.

const [PEER_LEFT, PEER_RIGHT, SM_ROWS_PX, LINK_PX, BAND_GAP] = [112, 24, 1, 44, 16];

function peerLayout(scene, width) {
  const top = headingHeight(scene.title, [scene.subtitle], width - 40) + 10;
  const band = scene.sms * SM_ROWS_PX;
  const bands = Array.from({ length: scene.gpus }, (_, gpu) => top + gpu * (band + BAND_GAP));
  const links = scene.links.map((_, index) => top + scene.gpus * (band + BAND_GAP) + 6 + index * (LINK_PX + 10));
  const ground = links.at(-1) + LINK_PX + 6;
  return { bands, band, links, ground, left: PEER_LEFT, right: width - PEER_RIGHT, height: ground + 84 };
}

function nsToX(scene, { left, right }) {
  return (ns) => left + (ns / scene.endNs) * (right - left);
}

function rowTop(scene, layout, row) {
  const gpu = Math.floor(row / scene.sms);
  return layout.bands[gpu] + (row - gpu * scene.sms) * SM_ROWS_PX;
}

function drawPeers(pen, scene, layout) {
  const { theme } = pen;
  drawHeading(pen, scene.title, [scene.subtitle], 20, pen.width - 40);
  layout.bands.forEach((top, gpu) => {
    pen.rect(layout.left, top, layout.right - layout.left, layout.band, "idle");
    pen.text(layout.left - 10, top + layout.band / 2 - 8, `GPU ${gpu}`, { size: 13, weight: 600, align: "right" });
    pen.text(layout.left - 10, top + layout.band / 2 + 9, `${scene.sms} SMs`, { size: 11, color: theme.muted, align: "right" });
  });
  drawPeerBlocks(pen, scene, layout);
  scene.links.forEach((link, index) => drawLink(pen, scene, layout, link, layout.links[index]));
  drawCrossings(pen, scene, layout);
  drawPeerAxis(pen, scene, layout);
}

function drawPeerBlocks(pen, scene, layout) {
  const { theme } = pen;
  const at = nsToX(scene, layout);
  const gap = scene.blocks.length < 3000 ? 0.6 : 0;
  for (const [row, kind, start, ready, end] of scene.blocks) {
    const y = rowTop(scene, layout, row);
    if (ready > start) pen.rect(at(start), y, at(ready) - at(start), SM_ROWS_PX, "waiting");
    pen.rect(at(ready), y, Math.max(0.6, at(end) - at(ready) - gap), SM_ROWS_PX, theme.stages[kind]);
  }
}

const BY_LIBRARY = "in use by the library; how much is not simulated";

function drawLink(pen, scene, layout, link, top) {
  const { theme } = pen;
  const { left, right } = layout;
  const at = nsToX(scene, layout);
  const ground = top + LINK_PX;
  pen.rect(left, top, right - left, LINK_PX, theme.card);
  const width = (right - left) / link.used.length;
  const points = [[left, ground]];
  link.used.forEach((share, place) => points.push([left + place * width, ground - share * LINK_PX], [left + (place + 1) * width, ground - share * LINK_PX]));
  points.push([right, ground]);
  pen.path(points, { fill: theme.stages[4] });
  for (const [start, end] of scene.byLibrary) {
    const [from, to] = [at(start), at(end)];
    pen.path([[from, top], [to, top], [to, ground], [from, ground], [from, top]], { stroke: theme.stages[2], line: 1.6 });
    if (to - from > 300) pen.text((from + to) / 2, top + LINK_PX / 2, BY_LIBRARY, { size: 11, color: theme.muted, align: "center" });
  }
  pen.text(left - 10, top + LINK_PX / 2 - 8, link.name, { size: 12, weight: 600, align: "right" });
  pen.text(left - 10, top + LINK_PX / 2 + 9, "link in use", { size: 11, color: theme.muted, align: "right" });
  pen.text(right + 4, top + 6, "1", { size: 10, color: theme.muted });
  pen.text(right + 4, ground - 6, "0", { size: 10, color: theme.muted });
}

// From the SM that stores to the edge of the other GPU's rows, where the tile is from then on.
function drawCrossings(pen, scene, layout) {
  const { theme } = pen;
  const at = nsToX(scene, layout);
  for (const [row, start, target, end] of scene.arrows) {
    const y0 = rowTop(scene, layout, row);
    const down = layout.bands[target] > y0;
    const y1 = down ? layout.bands[target] : layout.bands[target] + layout.band;
    const points = [[at(start), y0], [at(end), y1]];
    pen.path(points, { stroke: theme.background, line: 4 });
    pen.path(points, { stroke: theme.ink, line: 1.6 });
    const back = down ? -7 : 7;
    pen.path([[at(end) - 4, y1 + back], [at(end) + 4, y1 + back], [at(end), y1]], { fill: theme.ink });
  }
}

function drawPeerAxis(pen, scene, layout) {
  const { theme } = pen;
  const at = nsToX(scene, layout);
  const step = tickStep(scene.endNs / 1000, 8);
  for (let us = 0; us * 1000 <= scene.endNs * 1.0001; us += step) {
    pen.path([[at(us * 1000), layout.ground], [at(us * 1000), layout.ground + 5]], { stroke: theme.muted, line: 1 });
    pen.text(at(us * 1000), layout.ground + 14, us.toLocaleString("en"), { size: 11, color: theme.muted, align: "center" });
  }
  pen.text(layout.left - 10, layout.ground + 14, "µs", { size: 11, color: theme.muted, align: "right" });
  const used = [...new Set(scene.blocks.map(([, kind]) => kind))].sort();
  const entries = used.map((kind) => [scene.kinds[kind], swatch(pen, theme.stages[kind])]);
  entries.push(["waits for tiles", swatch(pen, "waiting")], ["idle SM", swatch(pen, "idle")]);
  if (scene.arrows.length) entries.push(["a few of the tiles that cross", (x, y) => pen.path([[x - 4, y], [x + 14, y]], { stroke: theme.ink, line: 1.6 })]);
  drawKey(pen, layout.left, layout.ground + 40, entries);
}

function peerFacts(scene, layout, x, y) {
  if (x < layout.left || x > layout.right) return null;
  const ns = ((x - layout.left) / (layout.right - layout.left)) * scene.endNs;
  const us = (value) => `${(value / 1000).toFixed(1)} µs`;
  const link = layout.links.findIndex((top) => y >= top && y <= top + LINK_PX);
  if (link >= 0) {
    const { name, used } = scene.links[link];
    if (scene.byLibrary.some(([start, end]) => start <= ns && ns < end)) return [name, BY_LIBRARY];
    return [name, `${(100 * used[Math.min(used.length - 1, Math.floor((ns / scene.endNs) * used.length))]).toFixed(0)} % of the link at ${us(ns)}`];
  }
  const gpu = layout.bands.findIndex((top) => y >= top && y <= top + layout.band);
  if (gpu < 0) return null;
  const row = gpu * scene.sms + Math.min(scene.sms - 1, Math.floor((y - layout.bands[gpu]) / SM_ROWS_PX));
  const place = `GPU ${gpu}, SM ${row - gpu * scene.sms}`;
  const found = scene.blocks.find(([at, , start, , end]) => at === row && start <= ns && ns < end);
  if (!found) return [place, "idle"];
  const [, , start, ready, end, stage, column, line] = found;
  const words = ns < ready ? "waits for tiles" : `${us(ready)} to ${us(end)}`;
  return [place, `${scene.names[stage]} (${column}, ${line})`, words, ...(ready > start ? [`waited ${us(ready - start)}`] : [])];
}

const render = sceneRenderer({ name: "several-gpus", layout: peerLayout, draw: drawPeers, facts: peerFacts });

export default { render };
