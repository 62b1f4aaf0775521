// One SM's resources as bars with the resident blocks in them, and the grid's waves below.

const [BAR_LEFT, BAR_RIGHT, BAR_PX, BAR_GAP, WAVE_PX] = [150, 190, 38, 12, 22];
const MOST_WAVES = 8;

function occupancyLayout(scene, width) {
  const top = headingHeight(scene.title, [scene.subtitle], width - 40) + 16;
  const waves = top + scene.resources.length * (BAR_PX + BAR_GAP) + 54;
  const shown = Math.min(scene.waves, MOST_WAVES);
  return { top, waves, shown, height: waves + shown * (WAVE_PX + 6) + 72, left: BAR_LEFT, right: width - BAR_RIGHT };
}

function amount(value, unit) {
  return `${Number(value.toFixed(1)).toLocaleString("en")}${unit ? ` ${unit}` : ""}`;
}

function drawOccupancy(pen, scene, layout) {
  drawHeading(pen, scene.title, [scene.subtitle], 20, pen.width - 40);
  scene.resources.forEach((resource, index) => drawResource(pen, scene, resource, layout, layout.top + index * (BAR_PX + BAR_GAP)));
  pen.text(20, layout.waves - 22, scene.waveTitle, { size: 15, weight: 600 });
  for (let index = 0; index < layout.shown; index++) drawWaveBar(pen, scene, layout, index);
  drawOccupancyKey(pen, layout.height - 38);
}

function drawResource(pen, scene, resource, { left, right }, top) {
  const { theme } = pen;
  const perUnit = (right - left) / resource.capacity;
  const middle = top + BAR_PX / 2;
  pen.text(left - 12, middle - 8, resource.label, { size: 13, weight: resource.isLimit ? 700 : 400, align: "right" });
  const each = `${amount(resource.need, resource.unit)} a block`;
  pen.text(left - 12, middle + 9, each, { size: 11, color: theme.muted, align: "right" });
  pen.rect(left, top, right - left, BAR_PX, "idle", { radius: 5, stroke: theme.idle_hatch });
  const width = resource.need * perUnit;
  for (let block = 0; block < scene.resident; block++) {
    const inset = width > 6 ? 1 : 0;
    pen.rect(left + block * width + inset, top + 1, Math.max(0.6, width - 2 * inset), BAR_PX - 2, theme.stages[0], { radius: width > 12 ? 4 : 0 });
    if (width < 24) continue;
    pen.text(left + (block + 0.5) * width, middle, String(block + 1), { weight: 600, color: theme.stage_text[0], align: "center" });
  }
  if (resource.isLimit && resource.need) {
    const start = left + scene.resident * width;
    const end = Math.min(start + width, right + 44);
    pen.rect(start + 1, top + 1, Math.max(2, end - start - 2), BAR_PX - 2, null, { radius: 4, stroke: theme.bad, line: 2, dash: [5, 4] });
  }
  const words = resource.isLimit ? `room for ${resource.allows}: the limit` : `room for ${resource.allows}`;
  const style = resource.isLimit ? { color: theme.bad, weight: 600 } : { color: theme.muted };
  pen.text(pen.width - 8, middle - 8, words, { size: 12, align: "right", ...style });
  pen.text(pen.width - 8, middle + 9, `of ${amount(resource.capacity, resource.unit)}`, { size: 11, color: theme.muted, align: "right" });
}

// The first waves and the last.
function waveNumber(scene, layout, index) {
  return index === layout.shown - 1 ? scene.waves : index + 1;
}

function drawWaveBar(pen, scene, { left, right, waves, shown }, index) {
  const { theme } = pen;
  const number = waveNumber(scene, { shown }, index);
  const isLast = number === scene.waves;
  const blocks = isLast ? scene.rest : scene.wave;
  const top = waves + index * (WAVE_PX + 6);
  const isJump = isLast && scene.waves > shown;
  pen.text(left - 12, top + WAVE_PX / 2, `${isJump ? "… " : ""}wave ${number}`, { size: 12, color: theme.muted, align: "right" });
  pen.rect(left, top, right - left, WAVE_PX, "idle", { radius: 4, stroke: theme.idle_hatch });
  const width = ((right - left) * blocks) / scene.wave;
  pen.rect(left, top, Math.max(1.5, width), WAVE_PX, theme.stages[0], { radius: width > 8 ? 4 : 0 });
  const words = `${blocks.toLocaleString("en")} of ${scene.wave.toLocaleString("en")} slots`;
  pen.text(right + 10, top + WAVE_PX / 2, words, { size: 12, color: isLast && blocks < scene.wave ? theme.ink : theme.muted });
}

function drawOccupancyKey(pen, y) {
  drawKey(pen, BAR_LEFT, y, [
    ["resident block", swatch(pen, pen.theme.stages[0])],
    ["left over", swatch(pen, "idle")],
    ["the next block, which does not fit", swatch(pen, null, { stroke: pen.theme.bad, line: 2, dash: [4, 3] })],
  ]);
}

function occupancyFacts(scene, layout, x, y) {
  const resource = scene.resources[Math.floor((y - layout.top) / (BAR_PX + BAR_GAP))];
  if (!resource || y < layout.top || x < layout.left || x > layout.right) return null;
  const used = scene.resident * resource.need;
  return [
    resource.label,
    `${amount(used, resource.unit)} of ${amount(resource.capacity, resource.unit)} in use`,
    `${amount(resource.need, resource.unit)} a block: room for ${resource.allows}`,
  ];
}

const render = sceneRenderer({
  name: "occupancy",
  layout: occupancyLayout,
  draw: drawOccupancy,
  facts: occupancyFacts,
  label: (scene) => `${scene.title}. ${scene.subtitle}. ${scene.waveTitle}`,
});

export default { render };
