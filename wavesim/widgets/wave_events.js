// A trace as a sequence of single steps, and what every block and semaphore is at after so many of them.

const [UNISSUED, WORKING, WAITING, FINISHED] = [0, 1, 2, 3];
// Of one instant: first what ends, then what that lets go on, then what comes to the freed slots.
const STEP_RANK = { finish: 0, post: 1, pass: 2, dispatch: 3, wait: 4 };

// Steps in time order: {kind, ns, block} and, where one is concerned, {dependency, semaphore}.
function stepsOf(panel, scene) {
  const { blocks, waits } = panel;
  const steps = [];
  for (let b = 0; b < blocks.stage.length; b++) {
    steps.push({ kind: "dispatch", ns: blocks.issue[b], block: b });
    steps.push({ kind: "finish", ns: blocks.end[b], block: b });
  }
  for (let i = 0; i < waits.block.length; i++) {
    const awaited = { block: waits.block[i], dependency: waits.dependency[i], semaphore: waits.semaphore[i] };
    steps.push({ kind: "wait", ns: waits.start[i], ...awaited }, { kind: "pass", ns: waits.end[i], ...awaited });
  }
  steps.push(...postsOf(panel, scene));
  return steps.sort((a, b) => a.ns - b.ns || STEP_RANK[a.kind] - STEP_RANK[b.kind] || a.block - b.block);
}

// A tile is posted when its last split-K slice has ended.
function postsOf(panel, scene) {
  const { stage, x, y, end } = panel.blocks;
  const posts = [];
  panel.dependencies.forEach((dependency, index) => {
    const producer = scene.stages.findIndex((info) => info.name === dependency.producer);
    const columns = scene.stages[producer].grid[0];
    const last = new Map();
    for (let b = 0; b < stage.length; b++) {
      if (stage[b] !== producer) continue;
      const tile = y[b] * columns + x[b];
      if (!last.has(tile) || end[last.get(tile)] <= end[b]) last.set(tile, b);
    }
    for (const [tile, block] of last) {
      const semaphore = dependency.semaphores[tile];
      posts.push({ kind: "post", ns: end[block], block, dependency: index, semaphore });
    }
  });
  return posts;
}

// After the first `count` steps: each block's state, each semaphore's value, and the time.
function stateAfter(panel, steps, count) {
  const blocks = new Uint8Array(panel.blocks.stage.length);
  const values = panel.dependencies.map((dependency) => new Int32Array(dependency.values.length));
  for (let i = 0; i < count; i++) {
    const { kind, block, dependency, semaphore } = steps[i];
    if (kind === "dispatch" || kind === "pass") blocks[block] = WORKING;
    else if (kind === "wait") blocks[block] = WAITING;
    else if (kind === "finish") blocks[block] = FINISHED;
    else values[dependency][semaphore] += 1;
  }
  return { blocks, values, ns: count ? steps[count - 1].ns : 0 };
}

// A step in words, with the semaphore's value after it.
function stepWords(step, panel, scene, values) {
  const { stage, x, y, sm } = panel.blocks;
  const b = step.block;
  const tile = `${scene.stages[stage[b]].name} tile (${x[b]}, ${y[b]})`;
  const at = `${timeText(step.ns, scene.unit)}: `;
  if (step.kind === "dispatch") return `${at}${tile} is dispatched to SM ${sm[b]}.`;
  if (step.kind === "finish") return `${at}${tile} finishes on SM ${sm[b]}.`;
  const dependency = panel.dependencies[step.dependency];
  if (!dependency) return `${at}${tile} ${step.kind === "wait" ? "waits for a semaphore" : "may go on"} on SM ${sm[b]}.`;
  const [name, needed] = [semaphoreName(dependency, step.semaphore), dependency.values[step.semaphore]];
  const value = values[step.dependency][step.semaphore];
  if (step.kind === "wait") return `${at}${tile} waits on SM ${sm[b]} for ${name}: ${value} of ${needed}.`;
  if (step.kind === "pass") return `${at}${tile} passes: ${name} reads ${value} of ${needed}.`;
  return `${at}${tile} posts ${name}: ${value} of ${needed}${value >= needed ? ", ready" : ""}.`;
}
