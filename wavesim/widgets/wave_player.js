// The wave player: plays a trace, or steps through it one dispatch, wait, post and finish at a time.

const SPEEDS = { "6 s": 6, "12 s": 12, "30 s": 30, "60 s": 60 };

function render({ model, el }) {
  const scene = model.get("scene");
  const panel = unpackPanel(scene.panels[0]);
  const steps = stepsOf(panel, scene);
  let [count, now, isPlaying, layout, place] = [firstStep(), 0, false, null, null];

  const told = element("div", { class: "wavesim-told", role: "status", "aria-live": "polite" });
  const slider = element("input", { type: "range", min: "0", max: String(steps.length), "aria-label": "Step" });
  const speed = element("select", { "aria-label": "The whole run takes" });
  for (const name of Object.keys(SPEEDS)) speed.append(element("option", {}, name));
  speed.value = "12 s";
  const button = (label, words, action) => {
    const made = element("button", { type: "button", "aria-label": label, title: label }, words);
    made.addEventListener("click", action);
    return made;
  };
  const play = button("Play", "▶ Play", () => (isPlaying ? pause() : start()));
  const bar = element(
    "div",
    { class: "wavesim-bar" },
    button("To the start", "|◀", () => goTo(0)),
    button("One step back", "◀ Step", () => goTo(count - 1)),
    play,
    button("One step on", "Step ▶", () => goTo(count + 1)),
    button("To the end", "▶|", () => goTo(steps.length)),
    slider,
    element("label", {}, "the whole run in ", speed),
  );
  const keys = element("div", { class: "wavesim-keys" }, "Space plays and pauses · ← → step · Shift ← → ten steps · Home, End");
  // Lumino, JupyterLab's key handler, leaves alone what is marked so.
  const root = element("div", {
    class: "wavesim-player", tabindex: "0", role: "group", "aria-label": "Wave player", "data-lm-suppress-shortcuts": "true",
  });
  root.append(bar, told);
  el.append(root);

  const picture = new Picture(root, {
    name: "wave",
    size: (width) => waveLayout(scene, panel, width).height,
    paint: (pen) => {
      layout = waveLayout(scene, panel, pen.width);
      const state = stateAfter(panel, steps, count);
      state.ns = Math.max(state.ns, now);
      place = drawWave(pen, scene, panel, layout, state, isPlaying ? null : steps[count - 1]);
    },
    label: () => `${scene.title}. ${told.textContent}`,
    facts: (x, y) => factsAt(x, y),
  });
  root.append(keys);

  // The one that was asked for (a kernel in the browser sends undefined for None), or the last of the run's first half: an empty picture says nothing.
  function firstStep() {
    const asked = model.get("step");
    if (asked != null) return Math.min(asked, steps.length);
    const later = steps.findIndex((step) => step.ns > panel.makespan / 2);
    return later < 0 ? steps.length : later;
  }

  function factsAt(x, y) {
    if (!layout) return null;
    const block = blockAt(panel, place, x, y);
    if (block >= 0 && panel.blocks.issue[block] <= now) return blockFacts(panel, scene, block);
    for (const part of layout.parts) {
      if (part.kind === "semaphores") {
        const cells = semaphoreCells(part, panel.dependencies[part.dependency].values.length);
        const s = cells.findIndex(([left, top, w, h]) => x >= left && x < left + w && y >= top && y < top + h);
        if (s >= 0) return semaphoreFacts(part.dependency, s);
        continue;
      }
      const [column, line] = [Math.floor((x - part.left) / part.cellWidth), Math.floor((y - part.top) / part.cellHeight)];
      if (column < 0 || line < 0 || column >= part.columns || line >= part.rows) continue;
      const { stage, x: xs, y: ys } = panel.blocks;
      const b = stage.findIndex((kind, i) => kind === part.stage && xs[i] === column && ys[i] === line);
      return b < 0 ? null : blockFacts(panel, scene, b);
    }
    return null;
  }

  function semaphoreFacts(index, s) {
    const dependency = panel.dependencies[index];
    const value = stateAfter(panel, steps, count).values[index][s];
    const posts = steps.filter((step) => step.kind === "post" && step.dependency === index && step.semaphore === s);
    const ready = posts[dependency.values[s] - 1];
    return [
      `semaphore ${semaphoreName(dependency, s)}`,
      `${value} of ${dependency.values[s]} posts at ${timeText(now, scene.unit)}`,
      ready ? `ready at ${timeText(ready.ns, scene.unit)}` : "never ready",
    ];
  }

  function show() {
    slider.value = String(count);
    const { values } = stateAfter(panel, steps, count);
    told.textContent = count ? stepWords(steps[count - 1], panel, scene, values) : "Nothing has been dispatched yet.";
    slider.setAttribute("aria-valuetext", told.textContent);
    root.dataset.step = String(count);
    picture.draw();
  }

  function goTo(target, isTold = true) {
    if (isTold) pause();
    count = Math.min(steps.length, Math.max(0, target));
    now = count ? steps[count - 1].ns : 0;
    show();
    if (isTold) keep();
  }

  // The kernel remembers the step, so that a reloaded page shows it again.
  function keep() {
    model.set("step", count);
    model.save_changes();
  }

  let [frame, seen] = [0, 0];
  function tick(time) {
    const share = (time - seen) / (1000 * SPEEDS[speed.value]);
    seen = time;
    now = Math.min(panel.makespan, now + share * panel.makespan);
    while (count < steps.length && steps[count].ns <= now) count += 1;
    show();
    if (count < steps.length) frame = requestAnimationFrame(tick);
    else pause();
  }

  function start() {
    if (count >= steps.length) [count, now] = [0, 0];
    isPlaying = true;
    told.setAttribute("aria-live", "off");
    play.replaceChildren("‖ Pause");
    play.setAttribute("aria-label", "Pause");
    seen = performance.now();
    frame = requestAnimationFrame(tick);
  }

  function pause() {
    if (!isPlaying) return;
    isPlaying = false;
    cancelAnimationFrame(frame);
    told.setAttribute("aria-live", "polite");
    play.replaceChildren("▶ Play");
    play.setAttribute("aria-label", "Play");
    show();
    keep();
  }

  const KEYS = {
    ArrowRight: (event) => goTo(count + (event.shiftKey ? 10 : 1)),
    ArrowLeft: (event) => goTo(count - (event.shiftKey ? 10 : 1)),
    Home: () => goTo(0),
    End: () => goTo(steps.length),
    " ": () => (isPlaying ? pause() : start()),
  };
  root.addEventListener("keydown", (event) => {
    const isOwn = event.target.tagName === "SELECT" || (event.key === " " && event.target.tagName === "BUTTON");
    if (isOwn || !(event.key in KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    KEYS[event.key](event);
  });
  slider.addEventListener("input", () => goTo(Number(slider.value)));
  const moved = () => model.get("step") !== count && !isPlaying && goTo(firstStep(), false);
  model.on("change:step", moved);
  goTo(count, false);
  const wantsMotion = !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const sight = new IntersectionObserver((seen) => {
    if (!seen.some((one) => one.isIntersecting)) return;
    sight.disconnect();
    goTo(0, false);
    start();
  });
  if (model.get("plays") && model.get("step") == null && wantsMotion) sight.observe(root);
  el.wavesim = picture;
  return () => {
    sight.disconnect();
    cancelAnimationFrame(frame);
    model.off("change:step", moved);
    picture.end();
  };
}

export default { render };
