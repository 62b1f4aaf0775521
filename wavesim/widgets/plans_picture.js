// Whole traces under each other on one time axis, and how many SMs are busy: the picture of the what-if
// explorer. A new scene is drawn in one go, so nothing flickers and every tile can be hovered at once.

function drawPlans(pen, scene, panels) {
  const { width } = pen;
  const room = width - LEFT - 20;
  let top = drawHeading(pen, scene.title, [scene.subtitle], LEFT, room) + 6;
  const endNs = Math.max(...panels.map((panel) => panel.makespan));
  const row = sharedRow(panels);
  const axisTop = top + 30;
  const ground = plansHeight(scene, panels, width) - 96;
  const scale = { left: LEFT, right: width - RIGHT, perNs: (width - LEFT - RIGHT) / endNs };
  drawAxis(pen, scene, scale, ground, axisTop, endNs);
  const places = panels.map((panel) => {
    const place = drawPanel(pen, panel, scene, { top, endNs, row });
    top += panelHeight(panel, endNs, row, width);
    return place;
  });
  drawBusy(pen, panels, scale, top, ground);
  drawLegend(pen, scene, ground + 62, panels.some((panel) => panel.waits.block.length));
  return places;
}

function sharedRow(panels) {
  const most = Math.max(...panels.map((panel) => panel.rows));
  return rowHeight(most, Math.min(264, 700 / panels.length));
}

function plansHeight(scene, panels, width) {
  const row = sharedRow(panels);
  const endNs = Math.max(...panels.map((panel) => panel.makespan));
  const rows = panels.map((panel) => panelHeight(panel, endNs, row, width)).reduce((a, b) => a + b, 0);
  return headingHeight(scene.title, [scene.subtitle], width - LEFT - 20) + 6 + rows + 30 + STEPS_PX + 96;
}

// Step curves of the share of SMs that compute; the last plan's is filled.
function drawBusy(pen, panels, { left, right, perNs }, top, ground) {
  const { theme } = pen;
  const [high, full] = [top + 30, ground - STEPS_PX];
  pen.text(left, top + 9, "SMs busy", { size: 15, weight: 600 });
  for (const share of [0, 0.5, 1]) {
    const y = ground - share * STEPS_PX;
    pen.path([[left, y], [right, y]], { stroke: theme.grid, line: 1 });
    pen.text(left - 8, y, share === 1 ? "100 %" : String(100 * share), { size: 12, color: theme.muted, align: "right" });
  }
  let x = left + 84;
  panels.forEach((panel, index) => {
    const isLast = index === panels.length - 1;
    const shown = panel.gain?.kind === "bad" ? theme.bad : theme.good; // as its end line in the panel
    const [colour, dash] = isLast ? [shown, []] : [theme.muted, [7, 6]];
    const [time, share] = [numbers(panel.busy.time), numbers(panel.busy.share)];
    const points = [];
    for (let i = 0; i < time.length; i++) {
      if (i) points.push([left + time[i] * perNs, ground - share[i - 1] * STEPS_PX]);
      points.push([left + time[i] * perNs, ground - share[i] * STEPS_PX]);
    }
    if (isLast) pen.path([...points, [left, ground]], { fill: `${colour}22` });
    pen.path(points, { stroke: colour, line: 2.2, dash });
    pen.path([[x, top + 9], [x + 22, top + 9]], { stroke: colour, line: 2.4, dash });
    pen.text(x + 28, top + 9, panel.label, { color: colour });
    x += textWidth(panel.label) + 48;
  });
  return [high, full];
}

function render({ model, el }) {
  let scene, panels, places = [];
  const load = () => {
    scene = model.get("scene");
    panels = scene.panels.map(unpackPanel);
  };
  load();
  const picture = new Picture(el, {
    name: "plans",
    size: (width) => plansHeight(scene, panels, width),
    paint: (pen) => (places = drawPlans(pen, scene, panels)),
    label: () => `${scene.title}. ${scene.subtitle}`,
    facts: (x, y) => {
      const index = places.findIndex((place) => y >= place.top && y < place.top + place.height);
      const block = index < 0 ? -1 : blockAt(panels[index], places[index], x, y);
      return block < 0 ? null : blockFacts(panels[index], scene, block);
    },
  });
  const change = () => {
    load();
    picture.draw();
  };
  model.on("change:scene", change);
  el.wavesim = picture;
  return () => {
    model.off("change:scene", change);
    picture.end();
  };
}

export default { render };
