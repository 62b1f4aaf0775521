// A warp's lanes above, the 32 banks below with the words they serve, one row per wavefront; a reduction's active threads.

const [BANKS_LEFT, BANKS_RIGHT, LANE_PX, WIRES_PX, STEP_PX] = [112, 24, 26, 84, 20];
const [HIGH_ROW, LOW_ROW, MANY_ROWS] = [20, 12, 12];
const STEP_WORDS_PX = 186;

function bankLayout(scene, width) {
  const lanes = headingHeight(scene.title, [scene.subtitle], width - 40) + 26;
  const banks = lanes + LANE_PX + WIRES_PX;
  const row = scene.wavefronts > MANY_ROWS ? LOW_ROW : HIGH_ROW;
  const rows = banks + LANE_PX + 4;
  const key = rows + scene.wavefronts * row + 24;
  const steps = key + 62;
  const height = scene.steps.length ? steps + scene.steps.length * STEP_PX + 44 : key + 28;
  return { lanes, banks, row, rows, key, steps, height, left: BANKS_LEFT, right: width - BANKS_RIGHT };
}

function drawBanks(pen, scene, layout) {
  drawHeading(pen, scene.title, [scene.subtitle], 20, pen.width - 40);
  const cell = (layout.right - layout.left) / scene.bankCount;
  const centre = (index) => layout.left + (index + 0.5) * cell;
  drawWires(pen, scene, layout, centre);
  drawLaneRow(pen, scene, layout, cell);
  drawBankRows(pen, scene, layout, cell);
  drawKey(pen, layout.left, layout.key, [
    ["lane, with the word it touches", swatch(pen, pen.theme.stages[0])],
    ["word that its bank serves alone", swatch(pen, pen.theme.stages[2])],
    ["word that shares its bank", swatch(pen, pen.theme.stages[1])],
    ["idle", swatch(pen, "idle")],
  ]);
  if (scene.steps.length) drawSteps(pen, scene, layout);
}

function isShared(scene, word) {
  return scene.banks[word % scene.bankCount].length > 1;
}

function drawWires(pen, scene, layout, centre) {
  const { theme } = pen;
  scene.lanes.forEach((word, lane) => {
    if (word === null) return;
    const stroke = isShared(scene, word) ? theme.stages[1] : theme.stages[2];
    pen.path([[centre(lane), layout.lanes + LANE_PX], [centre(word % scene.bankCount), layout.banks]], { stroke, line: 1.2 });
  });
}

function drawLaneRow(pen, scene, layout, cell) {
  const { theme } = pen;
  pen.text(layout.left - 10, layout.lanes + LANE_PX / 2, "lanes' words", { size: 13, weight: 600, align: "right" });
  scene.lanes.forEach((word, lane) => {
    const x = layout.left + lane * cell;
    const fill = word === null ? "idle" : theme.stages[0];
    pen.rect(x + 1, layout.lanes, cell - 2, LANE_PX, fill, { radius: 3, ...(word === null ? { stroke: theme.idle_hatch } : {}) });
    if (word !== null && cell >= 18) {
      pen.text(x + cell / 2, layout.lanes + LANE_PX / 2, String(word), { size: 11, color: theme.stage_text[0], align: "center" });
    }
    if (lane % 4 === 0) pen.text(x + cell / 2, layout.lanes - 10, String(lane), { size: 10, color: theme.muted, align: "center" });
  });
}

function drawBankRows(pen, scene, layout, cell) {
  const { theme } = pen;
  pen.text(layout.left - 10, layout.banks + LANE_PX / 2, "banks", { size: 13, weight: 600, align: "right" });
  for (let wave = 0; wave < scene.wavefronts; wave++) {
    const y = layout.rows + wave * layout.row;
    const words = layout.row === HIGH_ROW ? `wavefront ${wave + 1}` : wave % 4 ? "" : String(wave + 1);
    pen.text(layout.left - 10, y + layout.row / 2, words, { size: 11, color: theme.muted, align: "right" });
  }
  scene.banks.forEach((words, bank) => {
    const x = layout.left + bank * cell;
    pen.rect(x + 1, layout.banks, cell - 2, LANE_PX, theme.card, { radius: 3, stroke: theme.idle_hatch });
    if (cell >= 18) pen.text(x + cell / 2, layout.banks + LANE_PX / 2, String(bank), { size: 11, color: theme.muted, align: "center" });
    words.forEach((word, wave) => {
      const index = words.length > 1 ? 1 : 2;
      const y = layout.rows + wave * layout.row;
      pen.rect(x + 1, y, cell - 2, layout.row - 2, theme.stages[index], { radius: 3 });
      if (cell < 24 || layout.row !== HIGH_ROW) return;
      pen.text(x + cell / 2, y + layout.row / 2 - 1, String(word), { size: 10, color: theme.stage_text[index], align: "center" });
    });
  });
}

function drawSteps(pen, scene, layout) {
  const { theme } = pen;
  const right = layout.right - STEP_WORDS_PX;
  const threads = scene.steps[0].active.length;
  const each = (right - layout.left) / threads;
  pen.text(layout.left, layout.steps - 18, `threads that add, of ${threads}, step by step`, { size: 13, weight: 600 });
  scene.steps.forEach((step, index) => {
    const y = layout.steps + index * STEP_PX;
    pen.text(layout.left - 10, y + STEP_PX / 2, `distance ${step.distance}`, { size: 11, color: theme.muted, align: "right" });
    pen.rect(layout.left, y + 1, right - layout.left, STEP_PX - 3, theme.idle);
    step.active.forEach((isActive, thread) => {
      if (isActive) pen.rect(layout.left + thread * each, y + 1, Math.max(1.2, each), STEP_PX - 3, theme.stages[0]);
    });
    for (let warp = 32; warp < threads; warp += 32) {
      pen.rect(layout.left + warp * each - 0.75, y + 1, 1.5, STEP_PX - 3, theme.background);
    }
    if (index === scene.chosen) pen.rect(layout.left - 2, y - 1, right - layout.left + 4, STEP_PX + 1, null, { radius: 3, stroke: theme.ink, line: 1.5 });
    const style = { size: 11, color: index === scene.chosen ? theme.ink : theme.muted };
    pen.text(right + 12, y + STEP_PX / 2, step.words, style);
  });
  pen.text(layout.left, layout.steps + scene.steps.length * STEP_PX + 16, "gaps part warps", { size: 11, color: theme.muted });
}

function bankFacts(scene, layout, x, y) {
  if (x < layout.left || x > layout.right) return null;
  const index = Math.floor(((x - layout.left) / (layout.right - layout.left)) * scene.bankCount);
  if (y >= layout.lanes && y < layout.lanes + LANE_PX) {
    const word = scene.lanes[index];
    return word === null ? [`lane ${index}`, "idle"] : [`lane ${index}`, `word ${word}, bank ${word % scene.bankCount}`];
  }
  if (y < layout.banks || y >= layout.key - 20) return null;
  const words = scene.banks[index];
  return [`bank ${index}`, words.length ? `serves ${words.length > 1 ? "words" : "word"} ${words.join(", ")}` : "serves nothing"];
}

const render = sceneRenderer({
  name: "banks",
  layout: bankLayout,
  draw: drawBanks,
  facts: bankFacts,
  label: (scene) => `${scene.title}. ${scene.subtitle}. ${scene.steps[scene.chosen]?.words ?? ""}`,
});

export default { render };
