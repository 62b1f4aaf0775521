// Whole traces under each other on one time axis, and how many SMs are busy: the picture of the what-if
// explorer. A new scene is drawn in one go, so nothing flickers and every tile can be hovered at once.

function drawPlans(pen, scene, panels, span) {
  const { width } = pen;
  const room = width - LEFT - 20;
  let top = drawHeading(pen, scene.title, [scene.subtitle], LEFT, room) + 6;
  const row = sharedRow(panels);
  const axisTop = top + 30;
  const ground = plansHeight(scene, panels, span, width) - 96;
  const scale = { left: LEFT, right: width - RIGHT, perNs: nsScale(span, width) };
  drawAxis(pen, scene, scale, ground, axisTop, span);
  const places = panels.map((panel) => {
    const place = drawPanel(pen, panel, scene, { top, span, row });
    top += panelHeight(panel, span, row, width);
    return place;
  });
  drawBusy(pen, panels, span, scale, top, ground);
  drawLegend(pen, scene, ground + 62, panels.some((panel) => panel.waits.block.length));
  return places;
}

function sharedRow(panels) {
  const most = Math.max(...panels.map((panel) => panel.rows));
  return rowHeight(most, Math.min(264, 700 / panels.length));
}

function plansHeight(scene, panels, span, width) {
  const row = sharedRow(panels);
  const rows = panels.map((panel) => panelHeight(panel, span, row, width)).reduce((a, b) => a + b, 0);
  return headingHeight(scene.title, [scene.subtitle], width - LEFT - 20) + 6 + rows + 30 + STEPS_PX + 96;
}

// Step curves of the share of SMs that compute; the last plan's is filled.
function drawBusy(pen, panels, span, { left, right, perNs }, top, ground) {
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
      const at = left + (time[i] - span[0]) * perNs;
      if (i) points.push([at, ground - share[i - 1] * STEPS_PX]);
      points.push([at, ground - share[i] * STEPS_PX]);
    }
    clipped(pen, panel, span, () => {
      if (isLast) pen.path([...points, [left - span[0] * perNs, ground]], { fill: `${colour}22` });
      pen.path(points, { stroke: colour, line: 2.2, dash });
    });
    pen.path([[x, top + 9], [x + 22, top + 9]], { stroke: colour, line: 2.4, dash });
    pen.text(x + 28, top + 9, panel.label, { color: colour });
    x += textWidth(panel.label) + 48;
  });
  return [high, full];
}

const LEAST_SHARE = 1 / 2000; // of the run: the shortest span
const DRAG_PX = 6; // less is a click

// The span of time on a picture: dragged over, moved and widened by keys, whole again by a double click.
class TimeSpan {
  constructor(changed) {
    this.changed = changed;
    this.forget(1);
  }

  forget(endNs) {
    [this.endNs, this.now] = [endNs, [0, endNs]];
  }

  get isWhole() {
    return this.now[0] <= 0 && this.now[1] >= this.endNs;
  }

  show(from, to) {
    const length = Math.min(this.endNs, Math.max(to - from, this.endNs * LEAST_SHARE));
    const first = Math.min(Math.max(0, from), this.endNs - length);
    this.now = [first, first + length];
    this.changed();
  }

  // Wider or narrower about its middle, or moved by a share of its length.
  step({ factor = 1, shift = 0 }) {
    const [from, to] = this.now;
    const [middle, half] = [(from + to) / 2 + shift * (to - from), ((to - from) / 2) * factor];
    this.show(middle - half, middle + half);
  }
}

const SPAN_KEYS = {
  "+": { factor: 0.5 },
  "=": { factor: 0.5 },
  "-": { factor: 2 },
  ArrowLeft: { shift: -0.25 },
  ArrowRight: { shift: 0.25 },
};

function render({ model, el }) {
  let scene, panels, places = [];
  const told = element("div", { class: "wavesim-unseen", role: "status", "aria-live": "polite" });
  const keys = element("div", { class: "wavesim-keys" },
    "Drag over a span of time to see it larger, or: + and − zoom · arrow keys move · Home or a double click: the whole run");
  const root = element("div", {
    class: "wavesim-timelines", tabindex: "0", role: "group", "aria-label": "Timelines", "data-lm-suppress-shortcuts": "true",
  });
  const span = new TimeSpan(() => {
    const [from, to] = span.now.map((ns) => timeText(ns, scene.unit));
    told.textContent = span.isWhole ? "The whole run" : `From ${from} to ${to}`;
    root.dataset.span = span.isWhole ? "whole" : span.now.map(Math.round).join(" ");
    picture.draw();
  });
  const load = () => {
    scene = model.get("scene");
    panels = scene.panels.map(unpackPanel);
    span.forget(Math.max(...panels.map((panel) => panel.makespan)));
    root.dataset.span = "whole";
  };
  load();
  el.append(root);
  let drag = null; // where it began and is, in pixels
  const picture = new Picture(root, {
    name: "plans",
    size: (width) => plansHeight(scene, panels, span.now, width),
    paint: (pen) => {
      places = drawPlans(pen, scene, panels, span.now);
      if (!drag) return;
      const [x0, x1] = drag.toSorted((a, b) => a - b);
      pen.rect(x0, places[0].top - 4, x1 - x0, pen.height - places[0].top - 92, `${pen.theme.ink}22`);
    },
    label: () => `${scene.title}. ${scene.subtitle}${span.isWhole ? "" : ` ${told.textContent}.`}`,
    facts: (x, y) => {
      const index = drag ? -1 : places.findIndex((place) => y >= place.top && y < place.top + place.height);
      const block = index < 0 ? -1 : blockAt(panels[index], places[index], x, y);
      return block < 0 ? null : blockFacts(panels[index], scene, block);
    },
  });
  root.append(keys, told);

  const { canvas } = picture;
  const timeAt = (x) => (x - places[0].left) / places[0].perNs;
  const within = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    return Math.min(places[0].right, Math.max(places[0].seenLeft, x));
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return; // a finger scrolls the page
    drag = [within(event), within(event)];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    drag[1] = within(event);
    picture.draw();
  });
  const end = (isKept) => {
    if (!drag) return;
    const [from, to] = drag.toSorted((a, b) => a - b);
    drag = null;
    if (isKept && to - from >= DRAG_PX) span.show(timeAt(from), timeAt(to));
    else picture.draw();
  };
  canvas.addEventListener("pointerup", () => end(true));
  canvas.addEventListener("pointercancel", () => end(false));
  canvas.addEventListener("dblclick", () => span.show(0, span.endNs));
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Home" && !(event.key in SPAN_KEYS)) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own zoom and history
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Home") span.show(0, span.endNs);
    else span.step(SPAN_KEYS[event.key]);
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
    root.remove();
  };
}

export default { render };
