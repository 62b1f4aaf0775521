// Whole traces under each other on one time axis, how many SMs are busy and, above them, a strip of the gain at
// other sizes: the picture of every what-if. It is drawn in one go, so nothing flickers, up to an instant while two
// plans race, and small enough that both are seen at once.

const [PLAN_TITLE, PLAN_PX, BUSY_PX, STRIP_PX, STRIP_LABELS_PX, GROUND_PX] = [17, 132, 36, 24, 16, 42];

// Where things are. `strip` is {label, values, gains (null where unknown), at} or null.
function plansLayout({ scene, panels, span, strip }, width) {
  const side = sides(width);
  const room = width - side.left - 12;
  const rows = panels.map((panel) => rowHeight(panel.rows, panels.length === 1 ? 264 : Math.min(PLAN_PX, 700 / panels.length)));
  const stripTop = headingHeight(scene.title, [scene.subtitle], room, PLAN_TITLE) - 8;
  let top = stripTop + (strip ? STRIP_PX + STRIP_LABELS_PX + 10 : 0);
  const tops = panels.map((panel, index) => {
    const here = top;
    top += panelHeight(panel, span, rows[index], width) - 6;
    return here;
  });
  const ground = top + BUSY_PX + 8;
  const scale = { left: side.left, right: width - side.right, perNs: nsScale(span, width) };
  const legend = keyLines(legendEntries(scene, panels), side.left, width);
  return { side, room, rows, stripTop, tops, busy: top, ground, scale, height: ground + groundPx(width) + 20 * (legend - 1) };
}

// Below the axis: its numbers and the key, on a narrow picture its title too.
function groundPx(width) {
  return GROUND_PX + (width < NARROW_PX ? 20 : 0);
}

function drawPlans(pen, view, layout) {
  const { scene, panels, span, strip, until = Infinity } = view;
  drawHeading(pen, scene.title, [scene.subtitle], layout.side.left, layout.room, PLAN_TITLE);
  if (strip) drawStrip(pen, strip, layout);
  drawAxis(pen, scene, layout.scale, layout.ground, layout.tops[0] + 24, span, pen.width < NARROW_PX);
  const places = panels.map((panel, index) =>
    drawPanel(pen, panel, scene, { top: layout.tops[index], span, row: layout.rows[index], until }));
  drawBusy(pen, panels.filter((_, index) => scene.curves?.includes(index) ?? true), span, layout, until);
  drawKey(pen, layout.side.left, layout.ground + groundPx(pen.width) - 10, legendEntries(scene, panels));
  return places;
}

// Bars of the gain over stream sync, one per size; the size that is shown is marked, unknown ones are dots.
function drawStrip(pen, { label, values, gains, at }, layout) {
  const { theme } = pen;
  const { left, right } = stripPlace(layout);
  const known = gains.filter((gain) => gain != null);
  const [high, low] = [Math.max(5, ...known), Math.min(0, ...known)];
  const zero = layout.stripTop + (STRIP_PX * high) / (high - low);
  const each = (right - left) / values.length;
  pen.text(left - 8, layout.stripTop + 6, "gain", { size: 12, color: theme.muted, align: "right" });
  values.forEach((value, index) => {
    const [x, gain] = [left + index * each, gains[index]];
    if (value === at) pen.rect(x - 1, layout.stripTop - 4, Math.max(each, 3) + 1, STRIP_PX + 8, theme.idle, { stroke: theme.ink, line: 1.4, radius: 2 });
    if (gain == null) return pen.rect(x + each / 2 - 1, zero - 1, 2, 2, theme.muted);
    const tall = Math.max(1.5, Math.abs(gain) * (STRIP_PX / (high - low)));
    const fill = Math.abs(gain) < 0.5 ? theme.muted : gain > 0 ? theme.good : theme.bad;
    pen.rect(x + 0.5, gain > 0 ? zero - tall : zero, Math.max(1, each - 1.5), tall, fill);
  });
  pen.path([[left, zero], [right, zero]], { stroke: theme.muted, line: 1 });
  const below = layout.stripTop + STRIP_PX + 12;
  const apart = Math.ceil(64 / each);
  values.forEach((value, index) => {
    if (index % apart || index * each > right - left - textWidth(label, { size: 11 }) - 34) return;
    pen.text(left + (index + 0.5) * each, below, value.toLocaleString("en"), { size: 11, color: theme.muted, align: "center" });
  });
  pen.text(right, below, label, { size: 11, color: theme.muted, align: "right" });
  const now = gains[values.indexOf(at)];
  if (now != null) pen.text(right + 6, layout.stripTop + 12, layout.side.right < 60 ? gainText(now) : `${gainText(now)} here`, { size: 12, weight: 600 });
}

function stripPlace({ side, scale }) {
  return { left: side.left, right: scale.right - (side.right < 60 ? 74 : 0) };
}

function gainText(gain) {
  return `${gain > 0 ? "+" : gain < 0 ? "−" : "±"}${Math.abs(gain).toFixed(1)} %`;
}

// The size of the strip at a place of the picture, or null.
function stripValueAt({ values }, layout, x, y) {
  const { left, right } = stripPlace(layout);
  if (y < layout.stripTop - 4 || y > layout.stripTop + STRIP_PX + STRIP_LABELS_PX || x < left || x >= right) return null;
  return values[Math.floor(((x - left) / (right - left)) * values.length)];
}

// Step curves of the share of SMs that compute; the last plan's is filled.
function drawBusy(pen, panels, span, { busy: top, ground, scale: { left, right, perNs }, side }, until) {
  const { theme } = pen;
  const high = ground - top - 8;
  for (const share of [0, 1]) {
    pen.path([[left, ground - share * high], [right, ground - share * high]], { stroke: theme.grid, line: 1 });
  }
  pen.text(left - 8, ground - high + 4, side.left > 50 ? "100 %" : "all", { size: 11, color: theme.muted, align: "right" });
  pen.text(left - 8, ground - high / 2 + 4, "busy", { size: 11, color: theme.muted, align: "right" });
  const upto = Math.min(right, left + (Math.min(until, span[1]) - span[0]) * perNs);
  const curves = () => panels.forEach((panel, index) => {
    const isLast = index === panels.length - 1;
    const shown = panel.gain?.kind === "bad" ? theme.bad : theme.good; // as its end line in the panel
    const [colour, dash] = isLast ? [shown, []] : [theme.muted, [7, 6]];
    const points = [];
    panel.busyTime.forEach((ns, i) => {
      const at = left + (ns - span[0]) * perNs;
      if (i) points.push([at, ground - panel.busyShare[i - 1] * high]);
      points.push([at, ground - panel.busyShare[i] * high]);
    });
    if (isLast) pen.path([...points, [left - span[0] * perNs, ground]], { fill: `${colour}22` });
    pen.path(points, { stroke: colour, line: 1.8, dash });
  });
  const isWhole = until >= span[1] && span[0] <= 0 && panels.every(({ makespan }) => makespan <= span[1]);
  if (isWhole) curves();
  else pen.clipped([left, upto], curves);
}

// A scene's panels, unpacked, with their SMs sorted by what they do where there are many.
function plansPanels(scene) {
  return scene.panels.map((panel) => {
    const unpacked = sortedBySm(unpackPanel(panel));
    return { ...unpacked, busyTime: numbers(panel.busy.time), busyShare: numbers(panel.busy.share) };
  });
}
