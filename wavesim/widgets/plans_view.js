// The what-if's picture as it is used: a span of time, two plans that race, tiles that are outlined in both plans, a
// strip of sizes that is clicked, and the picture as PNG, SVG or a moving GIF.

const LEAST_SHARE = 1 / 2000; // of the run: the shortest span
const DRAG_PX = 6; // less is a click
const REST_MS = 1200; // after so long without a change the axis may shrink again
const SHRINKS_BELOW = 0.6; // of the axis: a shorter run gets an axis of its own
const RACE_S = 5;
const MOST_AHEAD = 24; // pictures of other sizes
const [GIF_PX, GIF_FRAMES, GIF_HOLD_S] = [760, 40, 2.5];

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

  // Wider or narrower about a place (its middle), or moved by a share of its length.
  step({ factor = 1, shift = 0, about = 0.5 }) {
    const [from, to] = this.now;
    const [length, centre] = [(to - from) * factor, from + (to - from) * about + shift * (to - from)];
    this.show(centre - about * length, centre + (1 - about) * length);
  }
}

// As Perfetto has them, and arrows.
const SPAN_KEYS = {
  "+": { factor: 0.5 }, "=": { factor: 0.5 }, w: { factor: 0.5 },
  "-": { factor: 2 }, s: { factor: 2 },
  ArrowLeft: { shift: -0.25 }, a: { shift: -0.25 },
  ArrowRight: { shift: 0.25 }, d: { shift: 0.25 },
};

class PlansView {
  constructor({ model, el }) {
    Object.assign(this, { model, ahead: new Map(), asked: null, drag: null, until: Infinity, places: [], frame: 0, changedAt: -Infinity });
    this.told = element("div", { class: "wavesim-unseen", role: "status", "aria-live": "polite" });
    this.race = element("button", { type: "button", class: "wavesim-race" }, "Race");
    this.race.addEventListener("click", () => this.toggle());
    const keys = "Space races · drag, W S or ctrl-wheel zoom · A D move · Home: the whole run";
    this.bar = element("div", { class: "wavesim-keys wavesim-racebar" }, this.race, element("span", {}, keys));
    this.root = element("div", {
      class: "wavesim-timelines", tabindex: "0", role: "group", "aria-label": "Timelines", "data-lm-suppress-shortcuts": "true",
    });
    el.append(this.root);
    this.span = new TimeSpan(() => this.tellSpan());
    const first = this.arrived("scene");
    this.keep(first);
    this.load(first);
    this.picture = new Picture(this.root, {
      name: "plans",
      size: (width) => plansLayout(this.view, width).height,
      paint: (pen) => this.paint(pen),
      label: () => `${this.scene.title}. ${this.scene.subtitle}${this.span.isWhole ? "" : ` ${this.told.textContent}.`}`,
      facts: (x, y) => this.facts(x, y),
      more: { GIF: () => this.gif() },
    });
    this.marks = element("div", { "aria-hidden": "true" });
    this.picture.root.append(this.marks);
    this.root.append(this.bar, this.told);
    this.listen();
    this.heard = { scene: () => this.answered(), strip: () => this.drawOnce(), ahead: () => this.keep(this.arrived("ahead")) };
    for (const [name, heard] of Object.entries(this.heard)) model.on(`change:${name}`, heard);
    this.followSlider();
    el.wavesim = this.picture;
  }

  get view() {
    const strip = this.model.get("strip");
    const isFull = strip && strip.values?.length > 1;
    this.root.dataset.unknown = isFull ? String(strip.gains.filter((gain) => gain == null).length) : "0";
    const shown = isFull && this.asked != null ? { ...strip, at: this.asked } : strip;
    return { scene: this.scene, panels: this.panels, span: this.span.now, strip: isFull ? shown : null, until: this.until };
  }

  get makespan() {
    return Math.max(...this.panels.map((panel) => panel.makespan));
  }

  load({ scene, panels }) {
    [this.scene, this.panels] = [scene, panels];
    this.span.forget(this.makespan);
    this.race.hidden = this.panels.length < 2;
    this.root.dataset.span = "whole";
  }

  // --- pictures of sizes that a slider may ask for next, which the kernel has sent ahead ---

  // A scene of the model with its arrays unpacked, and which setting and size it shows.
  arrived(name) {
    const value = this.model.get(name);
    const { of, at } = name === "scene" ? this.model.get("strip") ?? {} : value;
    const scene = name === "scene" ? value : value.scene;
    return { of, at, scene, panels: plansPanels(scene) };
  }

  keep(entry) {
    if (entry.of !== this.of) [this.of, this.ahead] = [entry.of, new Map()];
    if (entry.at != null) this.ahead.set(entry.at, entry);
    if (this.ahead.size > MOST_AHEAD) this.ahead.delete(this.ahead.keys().next().value);
  }

  // A reader's move to a size that was sent ahead is drawn at once.
  async followSlider() {
    const name = this.model.get("slider");
    if (!name) return;
    this.slider = await this.model.widget_manager.get_model(name);
    this.slider.on("change:index", (_, index, { updated_view: byReader } = {}) => this.ask(byReader ? index : -1), this);
  }

  ask(index) {
    const entry = this.ahead.get(this.model.get("strip").values[index]);
    this.asked = entry?.at ?? null;
    if (entry) this.change(entry);
  }

  // The kernel's answer: of what is drawn already, of a move before that, or news.
  answered() {
    const { of, at } = this.model.get("strip") ?? {};
    if (this.asked != null && of === this.of) {
      if (at === this.asked) this.asked = null;
      return;
    }
    this.asked = null;
    const entry = this.arrived("scene");
    this.keep(entry);
    this.change(entry);
  }

  // A new scene keeps the axis of the last one while changes follow each other.
  change(entry) {
    const before = this.span.endNs;
    this.stop();
    this.load(entry);
    clearTimeout(this.rests);
    if (this.makespan < before && this.isNear(before)) this.span.forget(before);
    this.rests = setTimeout(() => this.fitAxis(), REST_MS);
    this.changedAt = performance.now();
    this.mark([]);
    this.drawOnce();
  }

  // Scene and strip come in one message, as two changes.
  drawOnce() {
    if (this.isAsked) return;
    this.isAsked = true;
    queueMicrotask(() => {
      this.isAsked = false;
      this.picture.draw();
    });
  }

  isNear(endNs) {
    return performance.now() - this.changedAt < REST_MS || this.makespan >= SHRINKS_BELOW * endNs;
  }

  fitAxis() {
    if (!this.span.isWhole || this.makespan >= SHRINKS_BELOW * this.span.endNs) return;
    this.span.forget(this.makespan);
    this.picture.draw();
  }

  paint(pen) {
    const layout = plansLayout(this.view, pen.width);
    const places = drawPlans(pen, this.view, layout);
    if (pen.isForFile) return;
    [this.layout, this.places] = [layout, places];
    if (!this.drag) return;
    const [x0, x1] = this.drag.toSorted((a, b) => a - b);
    pen.rect(x0, places[0].top - 4, x1 - x0, layout.ground - places[0].top, `${pen.theme.ink}22`);
  }

  tellSpan() {
    const [from, to] = this.span.now.map((ns) => timeText(ns, this.scene.unit));
    this.told.textContent = this.span.isWhole ? "The whole run" : `From ${from} to ${to}`;
    this.root.dataset.span = this.span.isWhole ? "whole" : this.span.now.map(Math.round).join(" ");
    this.mark([]);
    this.picture.draw();
  }

  // --- what is hovered, in every plan ---

  facts(x, y) {
    const index = this.drag ? -1 : this.places.findIndex((place) => y >= place.top && y < place.top + place.height);
    const block = index < 0 ? -1 : blockAt(this.panels[index], this.places[index], x, y);
    this.mark(block < 0 ? [] : this.linked(index, block));
    return block < 0 ? null : blockFacts(this.panels[index], this.scene, block);
  }

  // The tile in every plan, and in its own the tiles whose semaphores it has awaited: [panel, block, role].
  linked(index, block) {
    const own = this.panels[index];
    const found = this.panels.map((panel, at) => [at, at === index ? block : sameTile(panel, own, block), "tile"]);
    return [...found.filter(([, at]) => at >= 0), ...awaitedTiles(own, this.scene, block).map((at) => [index, at, "read"])];
  }

  mark(found) {
    this.marks.replaceChildren(...found.map(([index, block, role]) => {
      const { left, perNs, top, row, seenLeft, right } = this.places[index];
      const { row: rows, span, issue, end } = this.panels[index].blocks;
      const [x0, x1] = [issue[block], end[block]].map((ns) => Math.min(right, Math.max(seenLeft, left + ns * perNs)));
      const box = `left:${x0}px;width:${x1 - x0}px;top:${top + rows[block] * row}px;height:${Math.max(2, span[block] * row)}px`;
      return element("div", { class: `wavesim-mark wavesim-mark-${role}`, style: box });
    }));
  }

  // --- the race ---

  toggle() {
    if (this.frame) return this.stop(this.until);
    let now = this.until < this.makespan ? this.until : 0;
    let seen = performance.now();
    this.race.textContent = "Pause";
    const tick = (time) => {
      now += ((time - seen) / 1000 / RACE_S) * this.makespan;
      seen = time;
      if (now >= this.makespan) return this.finish();
      this.until = now;
      this.picture.draw();
      this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
  }

  stop(until = Infinity) {
    cancelAnimationFrame(this.frame);
    [this.frame, this.until] = [0, until];
    this.race.textContent = "Race";
    this.root.dataset.raced = until < Infinity ? String(Math.round(until)) : "";
  }

  finish() {
    this.stop();
    const first = this.panels.toSorted((a, b) => a.makespan - b.makespan)[0];
    this.told.textContent = `${first.label} is done first, at ${timeText(first.makespan, this.scene.unit)}`;
    this.picture.draw();
  }

  // The race as a GIF, once around and again, in the page's colours.
  gif() {
    const width = Math.min(GIF_PX, this.picture.width);
    const height = plansLayout(this.view, width).height;
    const canvas = document.createElement("canvas");
    const paint = (until) => {
      const pen = new CanvasPen(canvas, width, height, pageTheme(), 1);
      drawPlans(pen, { ...this.view, until }, plansLayout(this.view, width));
      return pen.context.getImageData(0, 0, width, height).data;
    };
    const frames = [[paint(Infinity), GIF_HOLD_S]];
    for (let index = 1; index < GIF_FRAMES; index++) frames.push([paint((index / GIF_FRAMES) * this.makespan), RACE_S / GIF_FRAMES]);
    return new Blob([gifOf(frames, width, height)], { type: "image/gif" });
  }

  // --- pointer and keys ---

  listen() {
    const { canvas } = this.picture;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const within = (event) => Math.min(this.places[0].right, Math.max(this.places[0].seenLeft, at(event)[0]));
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button || this.pick(...at(event))) return;
      if (event.pointerType === "touch") return; // a finger scrolls the page
      this.drag = [within(event), within(event)];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      this.drag[1] = within(event);
      this.picture.draw();
    });
    canvas.addEventListener("pointerleave", () => this.mark([]));
    canvas.addEventListener("pointerup", () => this.drop(true));
    canvas.addEventListener("pointercancel", () => this.drop(false));
    canvas.addEventListener("dblclick", () => this.span.show(0, this.span.endNs));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const about = (within(event) - this.places[0].seenLeft) / (this.places[0].right - this.places[0].seenLeft);
      this.span.step({ factor: 2 ** (event.deltaY / 200), about });
    }, { passive: false });
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  // A click on the strip asks for that size.
  pick(x, y) {
    const { strip } = this.view;
    const value = strip && stripValueAt(strip, this.layout, x, y);
    if (value == null) return false;
    this.model.set("picked", value);
    this.model.save_changes();
    return true;
  }

  drop(isKept) {
    if (!this.drag) return;
    const [from, to] = this.drag.toSorted((a, b) => a - b);
    const timeAt = (x) => (x - this.places[0].left) / this.places[0].perNs;
    this.drag = null;
    if (isKept && to - from >= DRAG_PX) this.span.show(timeAt(from), timeAt(to));
    else this.picture.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own zoom and history
    const isRace = event.key === " " && event.target.tagName !== "BUTTON" && !this.race.hidden;
    if (event.key !== "Home" && !isRace && !(event.key in SPAN_KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    if (isRace) this.toggle();
    else if (event.key === "Home") this.span.show(0, this.span.endNs);
    else this.span.step(SPAN_KEYS[event.key]);
  }

  end() {
    this.stop();
    clearTimeout(this.rests);
    for (const [name, heard] of Object.entries(this.heard)) this.model.off(`change:${name}`, heard);
    this.slider?.off("change:index", null, this);
    this.picture.end();
    this.root.remove();
  }
}

function render(context) {
  const view = new PlansView(context);
  return () => view.end();
}

export default { render };
