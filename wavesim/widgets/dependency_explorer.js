// The dependency explorer: point at a tile, or walk there with the arrow keys, and see whom it waits for
// and who waits for it.

function render({ model, el }) {
  let scene = unpackDependencies(model.get("scene"));
  let chosen = keptTile();
  let [relations, layout] = [relationsOf(scene, chosen), null];

  const told = element("div", { class: "wavesim-told wavesim-unseen", role: "status", "aria-live": "polite" });
  const kernel = element("select", { "aria-label": "Kernel" });
  const keys = element("div", { class: "wavesim-keys" }, "Point at a tile, or: arrow keys walk over tiles · Page Up and Page Down change the kernel");
  const root = element("div", {
    class: "wavesim-explorer", tabindex: "0", role: "group", "aria-label": "Dependency explorer", "data-lm-suppress-shortcuts": "true",
  });
  root.append(element("div", { class: "wavesim-bar" }, element("label", {}, "kernel ", kernel), told));
  el.append(root);

  const picture = new Picture(root, {
    name: "dependencies",
    size: (width) => dependencyLayout(scene, width).height,
    paint: (pen) => {
      layout = dependencyLayout(scene, pen.width);
      drawDependencies(pen, scene, layout, chosen, relations);
    },
    label: () => told.textContent,
    facts: (x, y) => pointAt(x, y),
  });
  root.append(keys);

  function keptTile() {
    const [stage, x, y] = model.get("chosen");
    return { stage, tile: y * scene.stages[stage].grid[0] + x };
  }

  function choose(stage, tile, isKept = true) {
    chosen = { stage, tile };
    relations = relationsOf(scene, chosen);
    const { title, line } = dependencyWords(scene, chosen, relations);
    told.textContent = `${title}: ${line}`;
    kernel.value = scene.stages[stage].name;
    picture.draw();
    root.dataset.chosen = `${scene.stages[stage].name} ${tileName(scene, stage, tile)}`;
    if (!isKept) return;
    const [columns] = scene.stages[stage].grid;
    model.set("chosen", [stage, tile % columns, Math.floor(tile / columns)]);
    model.save_changes();
  }

  // Pointing chooses; leaving the grid keeps what was chosen last.
  function pointAt(x, y) {
    if (!layout) return null;
    for (const [stage, grid] of layout.grids.entries()) {
      const [column, row] = [Math.floor((x - grid.left) / grid.cellWidth), Math.floor((y - grid.top) / grid.cellHeight)];
      if (column < 0 || row < 0 || column >= grid.columns || row >= grid.rows) continue;
      const tile = row * grid.columns + column;
      if (stage !== chosen.stage || tile !== chosen.tile) choose(stage, tile, false);
      const { title, line } = dependencyWords(scene, chosen, relations);
      return [title, ...line.split(" · ")];
    }
    return null;
  }

  function walk(dx, dy) {
    const [columns, rows] = scene.stages[chosen.stage].grid;
    const x = Math.min(columns - 1, Math.max(0, (chosen.tile % columns) + dx));
    const y = Math.min(rows - 1, Math.max(0, Math.floor(chosen.tile / columns) + dy));
    choose(chosen.stage, y * columns + x);
  }

  function toStage(stage) {
    const next = Math.min(scene.stages.length - 1, Math.max(0, stage));
    choose(next, Math.min(chosen.tile, scene.stages[next].places.length - 1));
  }

  const KEYS = {
    ArrowRight: () => walk(1, 0),
    ArrowLeft: () => walk(-1, 0),
    ArrowDown: () => walk(0, 1),
    ArrowUp: () => walk(0, -1),
    PageUp: () => toStage(chosen.stage - 1),
    PageDown: () => toStage(chosen.stage + 1),
  };
  root.addEventListener("keydown", (event) => {
    if (event.target === kernel || !(event.key in KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    KEYS[event.key]();
  });
  kernel.addEventListener("change", () => toStage(scene.stages.findIndex((stage) => stage.name === kernel.value)));
  picture.canvas.addEventListener("click", () => choose(chosen.stage, chosen.tile));

  function load() {
    scene = unpackDependencies(model.get("scene"));
    kernel.replaceChildren(...scene.stages.map((stage) => element("option", {}, stage.name)));
    const { stage, tile } = keptTile();
    choose(stage, tile, false);
  }
  load();
  model.on("change:scene", load);
  model.on("change:chosen", load);
  el.wavesim = picture;
  return () => {
    model.off("change:scene", load);
    model.off("change:chosen", load);
    picture.end();
  };
}

export default { render };
