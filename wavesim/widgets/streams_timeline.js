// The stream timeline as a widget: hovering and arrow keys tell of an operation, step by step.

function operationWords(scene, one) {
  const others = one.after.map((index) => scene.operations[index].name);
  const promised = others.length ? `, after ${others.join(", ")} of other streams` : "";
  const held = one.false > 0 ? ` It was ready at ${usText(one.ready)} and stood behind ${one.heldBy} in ${one.queueName} for ${usText(one.false)}: a false dependency.` : "";
  return `${one.name}, ${one.words} of stream ${one.streamName}, runs from ${usText(one.start)} to ${usText(one.end)}${promised}.${held}`;
}

function operationFacts(scene, one) {
  const lines = [
    `${one.name}: ${one.words}, stream ${one.streamName}`,
    `submitted ${usText(one.submitted)}, ready ${usText(one.ready)}`,
    `at the front of ${one.queueName} from ${usText(one.head)} to ${usText(one.left)}`,
    `runs ${usText(one.start)} to ${usText(one.end)} on ${one.engineName}`,
  ];
  if (one.after.length) lines.push(`after ${one.after.map((index) => scene.operations[index].name).join(", ")}: promised`);
  if (one.false > 0) lines.push(`${usText(one.false)} behind ${one.heldBy}: a false dependency`);
  return lines;
}

function render({ model, el }) {
  let [scene, layout, chosen, order] = [model.get("scene"), null, -1, []];
  const told = element("div", { class: "wavesim-told", role: "status", "aria-live": "polite" });
  const keys = element("div", { class: "wavesim-keys" }, "← → operations in the order of their starts · Home, End · Escape");
  const root = element("div", {
    class: "wavesim-explorer", tabindex: "0", role: "group", "aria-label": "Stream timeline", "data-lm-suppress-shortcuts": "true",
  });
  el.append(root);
  const picture = new Picture(root, {
    name: "streams",
    size: (width) => streamsLayout(scene, width).height,
    paint: (pen) => {
      layout = streamsLayout(scene, pen.width);
      drawStreams(pen, scene, layout, chosen);
    },
    label: () => [scene.title, scene.subtitle, ...scene.notes, told.textContent].filter(Boolean).join(". "),
    facts: (x, y) => factsAt(x, y),
  });
  root.append(told, keys);

  function factsAt(x, y) {
    if (!layout || x < layout.left || x > layout.right) return null;
    const ns = (x - layout.left) / layout.perNs;
    const row = layout.rows.findIndex(([top, height]) => y >= top && y < top + height);
    if (row < 0) return null;
    const call = scene.host.find((one) => one.row === row && one.start <= ns && ns <= Math.max(one.end, one.start + 2 / layout.perNs));
    if (call) return [call.words, `called at ${usText(call.start)}, returned at ${usText(call.end)}`];
    const found = scene.operations.find(
      (one) =>
        (one.stream === row && Math.min(one.ready, one.start) <= ns && ns <= one.end) ||
        (one.queue === row && one.head <= ns && ns <= one.left) ||
        (one.engine === row && one.start <= ns && ns <= one.end),
    );
    return found ? operationFacts(scene, found) : null;
  }

  function choose(place) {
    const at = order.indexOf(chosen);
    const target = place === null ? -1 : Math.min(order.length - 1, Math.max(0, place(at)));
    chosen = target < 0 ? -1 : order[target];
    show();
  }

  function show() {
    told.textContent = chosen < 0 ? "" : operationWords(scene, scene.operations[chosen]);
    picture.draw();
  }

  const KEYS = {
    ArrowRight: (at) => at + 1,
    ArrowLeft: (at) => at - 1,
    Home: () => 0,
    End: () => Infinity,
    Escape: null,
  };
  root.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    choose(KEYS[event.key]);
  });
  const change = () => {
    scene = model.get("scene");
    order = scene.operations.map((_, index) => index).sort((a, b) => scene.operations[a].start - scene.operations[b].start || a - b);
    chosen = -1;
    show();
  };
  model.on("change:scene", change);
  change();
  el.wavesim = picture;
  return () => {
    model.off("change:scene", change);
    picture.end();
  };
}

export default { render };
