// Two dependent kernels on a GPU, simulated in the page as wavesim's own engine does it: the same blocks on the same
// SMs at the same nanoseconds, which a test compares. Example: on 4 SMs, 3 x 2 tiles of 1,000 ns each, the second kernel's
// tile (x, y) reads row y of the first's: 4,000 ns on one stream, 3,000 ns with semaphores.
// Blocks run at full speed whatever runs beside them; a wait costs `waitNs`, a kernel boundary `gapNs`, nothing else does.
// spec: {sms, rows, kernels: [{columns, ns, perSm}, {...}], gapNs, waitNs, policy: "stream", "row" or "tile"}.

function simulatePair(spec) {
  return new PairRun(spec).run();
}

class PairRun {
  constructor(spec) {
    this.spec = spec;
    const [first, second] = spec.kernels;
    this.room = first.perSm * second.perSm; // of an SM; a kernel's block takes the other's number of blocks
    this.needs = [second.perSm, first.perSm];
    this.sms = Array.from({ length: spec.sms }, () => ({ free: this.room, resident: 0, slots: 0 }));
    this.blocks = [];
    this.waits = [];
    this.left = spec.kernels.map((kernel) => kernel.columns * spec.rows);
    this.semaphores = Array.from({ length: spec.rows * first.columns }, () => ({ posts: 0, readyNs: null, spinning: [] }));
    [this.now, this.queue, this.changed, this.isHeadNew, this.ends] = [0, [], new Set(), true, new EventHeap()];
  }

  run() {
    const isStream = this.spec.policy === "stream";
    this.queue.push({ kernel: 0, next: 0 });
    if (!isStream) this.queue.push({ kernel: 1, next: 0 });
    this.dispatch();
    while (this.ends.size) {
      this.now = this.ends.first;
      let mayDispatch = false;
      while (this.ends.size && this.ends.first === this.now) {
        const act = this.ends.pop();
        mayDispatch = act() || mayDispatch;
      }
      if (mayDispatch) this.dispatch();
    }
    return { blocks: this.blocks, waits: this.waits, makespanNs: Math.max(...this.blocks.map((block) => block.end)) };
  }

  // One pass after all that ends at an instant: blocks of the oldest kernel go to the SM with the fewest.
  dispatch() {
    while (this.queue.length) {
      const grid = this.queue[0];
      const size = this.spec.kernels[grid.kernel].columns * this.spec.rows;
      let offered = this.isHeadNew ? [...this.sms.keys()] : [...this.changed];
      this.changed = new Set();
      while (grid.next < size) {
        offered = offered.filter((sm) => this.sms[sm].free >= this.needs[grid.kernel]);
        if (!offered.length) break;
        const sm = offered.reduce((best, other) => (this.isBefore(other, best) ? other : best));
        this.issue(grid.kernel, grid.next++, sm);
      }
      this.isHeadNew = grid.next >= size;
      if (!this.isHeadNew) return;
      this.queue.shift();
    }
  }

  isBefore(a, b) {
    const fewer = this.sms[a].resident - this.sms[b].resident;
    return fewer < 0 || (fewer === 0 && a < b);
  }

  issue(kernel, position, number) {
    const sm = this.sms[number];
    const slot = Math.log2(~sm.slots & (sm.slots + 1));
    sm.slots |= 1 << slot;
    sm.free -= this.needs[kernel];
    sm.resident += 1;
    const { columns } = this.spec.kernels[kernel];
    const [x, y] = [position % columns, Math.floor(position / columns)];
    const block = { row: this.blocks.length, kernel, x, y, sm: number, slot, issue: this.now, wait: 0, clock: this.now, done: 0, at: 0 };
    this.blocks.push(block);
    this.advance(block);
  }

  // What a block waits for: per wait the semaphore and how much of its work comes before.
  waitsOf({ kernel, y }) {
    const { policy, kernels: [first, second] } = this.spec;
    if (!kernel || policy === "stream") return [];
    if (policy === "row") return [[y, 0]];
    return Array.from({ length: first.columns }, (_, x) => [y * first.columns + x, Math.floor((second.ns * x) / first.columns)]);
  }

  // Goes on with a block until a semaphore is not ready, or to its end.
  advance(block) {
    const waits = this.waitsOf(block);
    const { ns } = this.spec.kernels[block.kernel];
    for (; block.at < waits.length; block.at++) {
      const [number, due] = waits[block.at];
      const semaphore = this.semaphores[number];
      if (semaphore.readyNs !== null && !this.spec.waitNs && !block.isSpinning) continue;
      if (!block.isSpinning) {
        block.clock += due - block.done;
        block.done = due;
        block.reached = block.clock;
      }
      if (semaphore.readyNs === null) {
        block.isSpinning = true;
        semaphore.spinning.push(block);
        return;
      }
      block.isSpinning = false;
      if (semaphore.readyNs > block.clock) {
        this.waits.push({ block: block.row, semaphore: number, start: block.clock, end: semaphore.readyNs });
        block.clock = semaphore.readyNs;
      }
      block.clock += this.spec.waitNs;
      block.wait += block.clock - block.reached;
    }
    this.ends.push(block.clock + ns - block.done, () => this.end(block));
  }

  end(block) {
    block.end = this.now;
    const sm = this.sms[block.sm];
    sm.free += this.needs[block.kernel];
    sm.resident -= 1;
    sm.slots ^= 1 << block.slot;
    if (!block.kernel && this.spec.policy !== "stream") this.post(block);
    this.left[block.kernel] -= 1;
    if (!block.kernel && !this.left[0] && this.spec.policy === "stream") {
      this.ends.push(this.now + this.spec.gapNs, () => {
        this.isHeadNew = true;
        return this.queue.push({ kernel: 1, next: 0 }) > 0;
      });
    }
    if (this.queue.length) this.changed.add(block.sm);
    return this.queue.length > 0;
  }

  post({ x, y }) {
    const { columns } = this.spec.kernels[0];
    const [number, value] = this.spec.policy === "row" ? [y, columns] : [y * columns + x, 1];
    const semaphore = this.semaphores[number];
    semaphore.posts += 1;
    if (semaphore.posts < value) return;
    semaphore.readyNs = this.now;
    for (const block of semaphore.spinning.splice(0)) this.advance(block);
  }
}

// What happens next, by time and then in the order in which it was put in.
class EventHeap {
  constructor() {
    [this.heap, this.count] = [[], 0];
  }

  get size() {
    return this.heap.length;
  }

  get first() {
    return this.heap[0][0];
  }

  push(time, act) {
    const { heap } = this;
    heap.push([time, this.count++, act]);
    for (let at = heap.length - 1; at; ) {
      const above = (at - 1) >> 1;
      if (!comesFirst(heap[at], heap[above])) return;
      [heap[at], heap[above], at] = [heap[above], heap[at], above];
    }
  }

  pop() {
    const { heap } = this;
    const [first, last] = [heap[0], heap.pop()];
    if (heap.length) {
      heap[0] = last;
      for (let at = 0; ; ) {
        const below = [2 * at + 1, 2 * at + 2].filter((child) => child < heap.length && comesFirst(heap[child], heap[at]));
        if (!below.length) break;
        const child = below.reduce((a, b) => (comesFirst(heap[b], heap[a]) ? b : a));
        [heap[at], heap[child], at] = [heap[child], heap[at], child];
      }
    }
    return first[2];
  }
}

function comesFirst([time, count], [otherTime, otherCount]) {
  return time < otherTime || (time === otherTime && count < otherCount);
}

// --- as a scene of two plans ---

function pairScene(spec) {
  const [stream, chosen] = ["stream", spec.policy].map((policy) => ({ spec, policy, run: simulatePair({ ...spec, policy }) }));
  const gain = 100 * (1 - chosen.run.makespanNs / stream.run.makespanNs);
  const names = { row: "PDL, a semaphore per row", tile: "PDL, a semaphore per tile" };
  const unit = { ns: 1000, symbol: "µs", axis: "time (µs)" };
  const [before, after] = [stream, chosen].map(({ run }) => timeText(run.makespanNs, unit));
  const change = Math.abs(gain) < 0.5 ? "no gain" : `${Math.abs(gain).toFixed(1)} % ${gain > 0 ? "less" : "more"} time`;
  const size = ({ columns }) => `${spec.rows} × ${columns} tiles`;
  return {
    title: `${names[spec.policy]}: ${change} (${before} → ${after})`,
    subtitle: `Simulated in this page: ${size(spec.kernels[0])}, then ${size(spec.kernels[1])}, on ${spec.sms} SMs`,
    unit,
    gain,
    stages: spec.kernels.map(({ columns }, index) => ({ name: `kernel${index + 1}`, letter: "PC"[index], grid: [columns, spec.rows, 1] })),
    panels: [pairPanel(stream, "Stream sync", null, unit), pairPanel(chosen, names[spec.policy], gain, unit)],
  };
}

function pairPanel({ spec, policy, run }, label, gain, unit) {
  const { blocks, waits, makespanNs } = run;
  const slots = 1 + Math.max(...blocks.map((block) => block.slot));
  const spans = spec.kernels.map((kernel) => Math.max(1, Math.floor(slots / kernel.perSm)));
  const busyNs = blocks.reduce((sum, block) => sum + (block.end - block.issue - block.wait) * spans[block.kernel], 0);
  const share = Math.min(1, busyNs / (makespanNs * spec.sms * slots));
  const column = (value) => Float64Array.from(blocks, value);
  const row = ({ sm, slot, kernel }) => sm * slots + Math.min(slot * spans[kernel], slots - spans[kernel]);
  const startOf = new Map(waits.filter((wait) => wait.start <= blocks[wait.block].issue).map((wait) => [wait.block, wait.end]));
  const kind = Math.abs(gain) < 0.5 ? "muted" : gain > 0 ? "good" : "bad";
  const producerEnd = Math.max(...blocks.filter((block) => !block.kernel).map((block) => block.end));
  const [first] = spec.kernels;
  const values = policy === "row" ? Array(spec.rows).fill(first.columns) : Array(spec.rows * first.columns).fill(1);
  return {
    label,
    facts: [`${timeText(makespanNs, unit)} · ${Math.round(100 * share)} % of SM time busy`, "simulated"],
    done: [timeText(makespanNs, unit)],
    gain: gain === null ? null : { words: `${gain > 0 ? "−" : "+"}${Math.abs(gain).toFixed(1)} %`, kind },
    boundaries: policy === "stream" ? [{ ns: producerEnd, words: "kernel boundary: kernel2 waits" }] : [],
    smCount: spec.sms, slots, rows: spec.sms * slots, makespan: makespanNs,
    blocks: {
      stage: column((block) => block.kernel), x: column((block) => block.x), y: column((block) => block.y), z: column(() => 0),
      sm: column((block) => block.sm), slot: column((block) => block.slot), row: column(row), span: column((block) => spans[block.kernel]),
      issue: column((block) => block.issue), start: column((block) => block.issue), end: column((block) => block.end),
      work: column((block) => startOf.get(block.row) ?? block.issue), wait: column((block) => block.wait),
    },
    waits: {
      block: Float64Array.from(waits, (wait) => wait.block), start: Float64Array.from(waits, (wait) => wait.start),
      end: Float64Array.from(waits, (wait) => wait.end), dependency: Float64Array.from(waits, () => 0),
      semaphore: Float64Array.from(waits, (wait) => wait.semaphore),
    },
    idle: idleStretches(blocks, row, spans, spec.sms * slots, makespanNs),
    dependencies: policy === "stream" ? [] : [{
      producer: "kernel1", consumer: "kernel2", policy, values,
      semaphores: Array.from({ length: spec.rows * first.columns }, (_, tile) => (policy === "row" ? Math.floor(tile / first.columns) : tile)),
    }],
    busy: busyCurve(blocks, waits, spec, makespanNs),
  };
}

function idleStretches(blocks, row, spans, rows, makespanNs) {
  const held = Array.from({ length: rows }, () => 0);
  const [row_, start, end] = [[], [], []];
  const gap = (at, from, to) => {
    if (to <= from) return;
    row_.push(at);
    start.push(from);
    end.push(to);
  };
  for (const block of blocks.toSorted((a, b) => a.issue - b.issue)) {
    for (let at = row(block), below = 0; below < spans[block.kernel]; below++) {
      gap(at + below, held[at + below], block.issue);
      held[at + below] = Math.max(held[at + below], block.end);
    }
  }
  held.forEach((since, at) => gap(at, since, makespanNs));
  return { row: Int32Array.from(row_), start: Float64Array.from(start), end: Float64Array.from(end) };
}

// The share of SMs on which some block computes, as steps.
function busyCurve(blocks, waits, spec, makespanNs) {
  const steps = [];
  const step = (block, from, to) => {
    if (to > from) steps.push([from, block.sm, 1], [to, block.sm, -1]);
  };
  const waiting = Map.groupBy ? Map.groupBy(waits, (wait) => wait.block) : new Map();
  for (const block of blocks) {
    let at = block.issue;
    for (const wait of waiting.get(block.row) ?? []) {
      step(block, at, wait.start);
      at = wait.end;
    }
    step(block, at, block.end);
  }
  steps.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
  const [computing, time, share] = [new Int32Array(spec.sms), [], []];
  let busy = 0;
  steps.forEach(([ns, sm, change], index) => {
    busy += (computing[sm] + change > 0) - (computing[sm] > 0);
    computing[sm] += change;
    if (steps[index + 1]?.[0] === ns) return;
    time.push(ns);
    share.push(busy / spec.sms);
  });
  return { time: Float64Array.from([...time, makespanNs]), share: Float64Array.from([...share, 0]) };
}
