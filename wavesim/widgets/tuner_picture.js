// Gain over size, a curve per policy: what is measured is filled and has whiskers, what is predicted is open.
// A point is chosen by click or arrow keys; the kernel then draws its timelines below.

const [GAIN_LEFT, GAIN_RIGHT, GAIN_PX, REACH_PX] = [66, 56, 260, 14];

function tunerLayout(scene, width) {
  const top = headingHeight(scene.title, [scene.subtitle], width - GAIN_LEFT - 20) + 30;
  const values = scene.points.flatMap((point) => [point.predicted, point.measured, point.low, point.high]);
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
  const room = Math.max(1, 0.08 * (high - low));
  const scale = GAIN_PX / (high - low + 2 * room);
  const step = (width - GAIN_LEFT - GAIN_RIGHT) / scene.sizes.length;
  return {
    top, low: low - room, high: high + room,
    x: (point) => GAIN_LEFT + (point.size + 0.5) * step + (point.policy - (scene.policies.length - 1) / 2) * Math.min(12, step / 6),
    y: (gain) => top + (high + room - gain) * scale,
    height: top + GAIN_PX + 96,
  };
}

function policyColour(theme, index) {
  return [theme.good, theme.bad, theme.ink, theme.muted, theme.stages[0]][index % 5];
}

function drawTuner(pen, scene, layout, chosen) {
  const { theme, width } = pen;
  drawHeading(pen, scene.title, [scene.subtitle], GAIN_LEFT, width - GAIN_LEFT - 20);
  const right = width - GAIN_RIGHT;
  pen.rect(GAIN_LEFT, layout.y(0), right - GAIN_LEFT, layout.y(layout.low) - layout.y(0), theme.card);
  const step = tickStep(layout.high - layout.low, 6);
  for (let gain = Math.ceil(layout.low / step) * step; gain <= layout.high; gain += step) {
    const y = layout.y(gain);
    pen.path([[GAIN_LEFT, y], [right, y]], { stroke: gain ? theme.grid : theme.muted, line: gain ? 1 : 1.6 });
    pen.text(GAIN_LEFT - 8, y, `${gain > 0 ? "+" : gain < 0 ? "−" : ""}${Math.abs(gain)}`, { size: 12, color: theme.muted, align: "right" });
  }
  pen.text(GAIN_LEFT, layout.top - 16, "improvement over stream sync (points)", { size: 12, color: theme.muted });
  pen.text(right + 6, layout.y(0) - 9, "gain ↑", { size: 11, color: theme.muted });
  pen.text(right + 6, layout.y(0) + 10, "loss ↓", { size: 11, color: theme.muted });
  const bottom = layout.top + GAIN_PX;
  const apart = Math.ceil(scene.sizes.length / Math.floor((right - GAIN_LEFT) / 52));
  scene.sizes.forEach((size, index) => {
    if (index % apart) return;
    const x = layout.x({ size: index, policy: (scene.policies.length - 1) / 2 });
    pen.text(x, bottom + 16, size, { size: 12, color: theme.muted, align: "center" });
  });
  pen.text((GAIN_LEFT + right) / 2, bottom + 38, scene.sizeName, { size: 12, color: theme.muted, align: "center" });
  scene.policies.forEach((_, policy) => drawCurve(pen, scene, layout, policy));
  drawChosen(pen, scene, layout, chosen);
  drawTunerKey(pen, scene, layout.height - 34);
}

function drawCurve(pen, scene, layout, policy) {
  const colour = policyColour(pen.theme, policy);
  const points = scene.points.filter((point) => point.policy === policy);
  const dash = policy ? [5, 2 + policy] : [];
  pen.path(points.map((point) => [layout.x(point), layout.y(point.measured ?? point.predicted)]), { stroke: `${colour}88`, line: 1.2, dash });
  for (const point of points) {
    const x = layout.x(point);
    if (point.measured !== null) {
      pen.path([[x, layout.y(point.low)], [x, layout.y(point.high)]], { stroke: colour, line: 1.6 });
      drawMark(pen, x, layout.y(point.measured), policy, colour, true);
    }
    if (point.measured === null) drawMark(pen, x, layout.y(point.predicted), policy, colour, false);
    else drawDiamond(pen, x, layout.y(point.predicted), 7, { stroke: colour, line: 1.6 });
  }
}

function drawDiamond(pen, x, y, reach, style) {
  pen.path([[x, y - reach], [x + reach, y], [x, y + reach], [x - reach, y], [x, y - reach]], style);
}

// Round for the first policy, square for the second, then a triangle and a diamond.
function drawMark(pen, x, y, policy, colour, isFilled) {
  const fill = isFilled ? colour : pen.theme.background;
  if (policy % 4 < 2) pen.rect(x - 4.5, y - 4.5, 9, 9, fill, { radius: policy % 4 ? 1 : 4.5, stroke: colour, line: 1.8 });
  else if (policy % 4 === 2) pen.path([[x, y - 6], [x + 5.5, y + 4], [x - 5.5, y + 4], [x, y - 6]], { fill, stroke: colour, line: 1.8 });
  else drawDiamond(pen, x, y, 6, { fill, stroke: colour, line: 1.8 });
}

function drawChosen(pen, scene, layout, chosen) {
  const { theme } = pen;
  const point = scene.points[chosen];
  const [x, y] = [layout.x(point), layout.y(point.measured ?? point.predicted)];
  pen.path([[x, y + 12], [x, layout.top + GAIN_PX]], { stroke: theme.ink, line: 1, dash: [2, 3] });
  pen.rect(x - 11, y - 11, 22, 22, null, { radius: 11, stroke: theme.ink, line: 2.2 });
}

function drawTunerKey(pen, scene, y) {
  const hasMeasured = scene.points.some((point) => point.measured !== null);
  const policies = scene.policies.map((name, policy) => [
    `${name}, ${hasMeasured ? "measured" : "predicted"}`,
    (x, middle) => drawMark(pen, x + 6, middle, policy, policyColour(pen.theme, policy), hasMeasured),
  ]);
  const predicted = (x, middle) => drawDiamond(pen, x + 6, middle, 6, { stroke: pen.theme.muted, line: 1.6 });
  const whiskers = (x, middle) => pen.path([[x + 6, middle - 7], [x + 6, middle + 7]], { stroke: pen.theme.muted, line: 1.6 });
  const measured = [["predicted", predicted], [scene.spread, whiskers]];
  drawKey(pen, GAIN_LEFT, y, [...policies, ...(hasMeasured ? measured : [])]);
}

function signedPoints(value) {
  const size = Math.abs(value).toFixed(1);
  return `${size === "0.0" ? "±" : value > 0 ? "+" : "−"}${size}`;
}

function pointWords(scene, point) {
  const lines = [`${scene.sizes[point.size]} ${scene.sizeName}, ${point.name}`, `predicted ${signedPoints(point.predicted)} points`];
  if (point.measured !== null) {
    lines.push(`measured ${signedPoints(point.measured)} (quartiles ${signedPoints(point.low)} to ${signedPoints(point.high)})`);
  }
  return lines;
}

function render({ model, el }) {
  let [scene, chosen, layout] = [model.get("scene"), model.get("chosen"), null];
  const told = element("div", { class: "wavesim-told", role: "status", "aria-live": "polite" });
  const keys = element("div", { class: "wavesim-keys" }, "Click a point, or: ← → change the size · ↑ ↓ the policy · the timelines below follow");
  const root = element("div", {
    class: "wavesim-explorer", tabindex: "0", role: "group", "aria-label": "Gains to choose from", "data-lm-suppress-shortcuts": "true",
  });
  root.append(told);
  el.append(root);
  const nearest = (x, y) => {
    const far = (point) => Math.hypot(layout.x(point) - x, layout.y(point.measured ?? point.predicted) - y);
    const index = scene.points.reduce((best, point, i) => (far(point) < far(scene.points[best]) ? i : best), 0);
    return far(scene.points[index]) <= REACH_PX ? index : -1;
  };
  const picture = new Picture(root, {
    name: "gains",
    size: (width) => tunerLayout(scene, width).height,
    paint: (pen) => {
      layout = tunerLayout(scene, pen.width);
      drawTuner(pen, scene, layout, chosen);
    },
    label: () => `${scene.title}. ${told.textContent}`,
    facts: (x, y) => {
      const index = nearest(x, y);
      return index < 0 ? null : pointWords(scene, scene.points[index]);
    },
  });
  root.append(keys);

  function choose(index, isKept = true) {
    if (index < 0) return;
    chosen = index;
    told.textContent = pointWords(scene, scene.points[chosen]).join(": ").replace(": measured", ", measured");
    root.dataset.chosen = String(chosen);
    picture.draw();
    if (!isKept) return;
    model.set("chosen", chosen);
    model.save_changes();
  }

  // The next point in a direction: of the same policy over sizes, of the same size over policies.
  function walk(sizes, policies) {
    const now = scene.points[chosen];
    const [size, policy] = [now.size + sizes, now.policy + policies];
    choose(scene.points.findIndex((point) => point.size === size && point.policy === policy));
  }

  const KEYS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  root.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    walk(...KEYS[event.key]);
  });
  picture.canvas.addEventListener("click", (event) => {
    const box = picture.canvas.getBoundingClientRect();
    choose(nearest(event.clientX - box.left, event.clientY - box.top));
  });
  const changed = () => {
    const isNew = model.get("scene") !== scene;
    scene = model.get("scene");
    if (isNew || model.get("chosen") !== chosen) choose(model.get("chosen"), false);
  };
  model.on("change:scene change:chosen", changed);
  choose(chosen, false);
  el.wavesim = picture;
  return () => {
    model.off("change:scene change:chosen", changed);
    picture.end();
  };
}

export default { render };
