// Places of semaphores: what one hand-over takes in each, whole runs below, and the SMs that have work where whole
// tile rows stay in one cluster.

const [PLACE_LEFT, PLACE_RIGHT, PLACE_ROW, PLACE_PART, PLACE_GAP] = [232, 92, 26, 34, 20];
const [SM_PX, SM_COLUMNS_LEAST] = [15, 16];

function placeLayout(scene, width) {
  const handovers = headingHeight(scene.title, [scene.subtitle, scene.told], width - 40) + PLACE_PART;
  const runs = handovers + scene.handovers.length * PLACE_ROW + 30 + PLACE_GAP + PLACE_PART;
  const sms = runs + scene.runs.length * PLACE_ROW + PLACE_GAP + PLACE_PART;
  const columns = Math.max(SM_COLUMNS_LEAST, Math.floor((width - 40) / SM_PX));
  const ground = sms + Math.ceil(scene.sms / columns) * SM_PX;
  return { handovers, runs, sms, columns, left: PLACE_LEFT, right: width - PLACE_RIGHT, height: ground + 46 };
}

function drawPlaces(pen, scene, layout) {
  drawHeading(pen, scene.title, [scene.subtitle, scene.told], 20, pen.width - 40);
  drawHandovers(pen, scene, layout);
  drawRuns(pen, scene, layout);
  drawSms(pen, scene, layout);
}

function placePart(pen, y, words) {
  pen.text(20, y - 15, words, { size: 14, weight: 600 });
}

function placeName(pen, layout, y, words) {
  pen.text(layout.left - 10, y + PLACE_ROW / 2, words, { size: 12, color: pen.theme.muted, align: "right" });
}

function drawHandovers(pen, scene, layout) {
  const { theme } = pen;
  const total = (one) => one.post + one.hop + one.look;
  const per = (layout.right - layout.left) / Math.max(...scene.handovers.map(total));
  placePart(pen, layout.handovers, "One tile: from its last store to its consumer's first load");
  scene.handovers.forEach((one, index) => {
    const y = layout.handovers + index * PLACE_ROW;
    let x = layout.left;
    placeName(pen, layout, y, one.name);
    [one.post, one.hop, one.look].forEach((ns, part) => {
      pen.rect(x, y + 4, Math.max(1, ns * per - 1), PLACE_ROW - 8, theme.stages[part], { radius: 2 });
      x += ns * per;
    });
    pen.text(x + 8, y + PLACE_ROW / 2, `${total(one).toLocaleString("en")} ns`, { size: 12 });
  });
  drawKey(pen, layout.left, layout.handovers + scene.handovers.length * PLACE_ROW + 14, [
    ["post: until the tile is in the L2", swatch(pen, theme.stages[0])],
    ["from post to wait", swatch(pen, theme.stages[1])],
    ["a look", swatch(pen, theme.stages[2])],
  ]);
}

function pointsText(points) {
  return `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(Math.abs(points) < 10 ? 2 : 1)} %`;
}

function drawRuns(pen, scene, layout) {
  const { theme } = pen;
  const most = Math.max(...scene.runs.map((one) => one.ns));
  const per = (layout.right - layout.left) / most;
  placePart(pen, layout.runs, "The whole run, and its gain over stream order");
  scene.runs.forEach((one, index) => {
    const y = layout.runs + index * PLACE_ROW;
    const isPlaced = index === scene.runs.length - 1;
    placeName(pen, layout, y, one.name);
    pen.rect(layout.left, y + 4, one.ns * per, PLACE_ROW - 8, index === 0 ? theme.waiting : theme.stages[isPlaced ? 1 : 0], { radius: 2 });
    const words = index === 0 ? `${(one.ns / 1000).toFixed(0)} µs` : pointsText(one.points);
    pen.text(layout.left + one.ns * per + 8, y + PLACE_ROW / 2, words, { size: 12 });
  });
}

function smOf(scene, sm) {
  const cluster = Math.floor(sm / scene.blocks);
  if (cluster >= scene.clusters) return { words: "in no cluster: what is left of the division", rows: 0 };
  const rows = Math.floor(scene.groups / scene.clusters) + (cluster < scene.groups % scene.clusters);
  return { words: `cluster ${cluster}: ${rows} tile row${rows === 1 ? "" : "s"}`, rows, cluster };
}

function smCorner(layout, sm) {
  return [20 + (sm % layout.columns) * SM_PX, layout.sms + Math.floor(sm / layout.columns) * SM_PX];
}

function drawSms(pen, scene, layout) {
  const { theme } = pen;
  const most = scene.most;
  placePart(pen, layout.sms, `${scene.sms} SMs as ${scene.clusters} clusters of ${scene.blocks}, and ${scene.groups} tile rows`);
  const fills = (rows) => (rows === 0 ? "idle" : rows === most ? theme.stages[1] : theme.stages[0]);
  const seen = new Set();
  for (let sm = 0; sm < scene.sms; sm++) {
    const [x, y] = smCorner(layout, sm);
    const { rows, cluster } = smOf(scene, sm);
    seen.add(rows);
    const isLast = cluster !== undefined && (sm + 1) % scene.blocks === 0;
    pen.rect(x, y, SM_PX - (isLast ? 5 : 2), SM_PX - 3, fills(rows), { radius: 2 });
  }
  const rowsText = (rows) => (rows === 0 ? "no work" : `${rows} row${rows === 1 ? "" : "s"} of both GEMMs`);
  const key = [...seen].sort((a, b) => b - a).map((rows) => [rowsText(rows), swatch(pen, fills(rows))]);
  drawKey(pen, 20, layout.height - 26, key);
}

function placeFacts(scene, layout, x, y) {
  const handover = scene.handovers[Math.floor((y - layout.handovers) / PLACE_ROW)];
  if (y >= layout.handovers && handover) {
    return [handover.name, `post ${handover.post} ns, to the wait ${handover.hop} ns, a look ${handover.look} ns`, handover.source];
  }
  const run = scene.runs[Math.floor((y - layout.runs) / PLACE_ROW)];
  if (y >= layout.runs && run) return [run.name, `${(run.ns / 1000).toFixed(1)} µs, simulated`, `${pointsText(run.points)} against stream order`];
  const column = Math.floor((x - 20) / SM_PX);
  const sm = Math.floor((y - layout.sms) / SM_PX) * layout.columns + column;
  if (y < layout.sms || column < 0 || column >= layout.columns || sm >= scene.sms) return null;
  return [`SM ${sm}`, smOf(scene, sm).words];
}

const render = sceneRenderer({ name: "places", layout: placeLayout, draw: drawPlaces, facts: placeFacts });

export default { render };
