// The page without a kernel: its controls, what they show, and links that restore it. OPEN_DATA is what wavesim has
// simulated ahead: sizes, plans, and per size and plan a panel, deflated.

const BOUNDS = {
  blocks: [1, 528], c1: [1, 400], c2: [1, 400], b1: [1, 8], b2: [1, 8], rows: [1, 400], sms: [1, 264],
  t1: [0.01, 1e5], t2: [0.01, 1e5], gap: [0, 1e4], wait: [0, 1e3],
};
const WHOLE = ["blocks", "c1", "c2", "b1", "b2", "rows", "sms"];
const NAMED = {
  c1: "tile columns of the first kernel", c2: "tile columns of the second kernel", t1: "µs per tile of the first kernel",
  t2: "µs per tile of the second kernel", b1: "blocks per SM of the first kernel", b2: "blocks per SM of the second kernel",
  rows: "tile rows", sms: "SMs", gap: "µs between kernels", wait: "µs per wait", blocks: "blocks",
};
const MOST_TILES = 6000;
const START = {
  tokens: 1024, plan: OPEN_DATA.plans[0], blocks: 133,
  c1: 24, t1: 240, b1: 1, c2: 48, t2: 118, b2: 1, rows: 8, sms: 132, gap: 1, wait: 0.5, policy: "row",
};

// A value of the state from a text. Throws a sentence that names the value and its bounds.
function readValue(name, text) {
  if (name === "tokens") return oneOf(name, Number(text), OPEN_DATA.sizes, `128, 256 and on to ${OPEN_DATA.sizes.at(-1)}`);
  if (name === "plan") return oneOf(name, text, OPEN_DATA.plans, OPEN_DATA.plans.join(", "));
  if (name === "policy") return oneOf(name, text, ["row", "tile"], "row or tile");
  const [low, high] = BOUNDS[name];
  const value = Number(text);
  const isNumber = /^\s*\d*\.?\d+\s*$/.test(text) && (!WHOLE.includes(name) || Number.isInteger(value));
  const kind = WHOLE.includes(name) ? "a whole number" : "a number";
  if (!isNumber || value < low || value > high) throw new Error(`${NAMED[name]}: “${text}” is not ${kind} from ${low} to ${high.toLocaleString("en")}.`);
  return value;
}

function oneOf(name, value, known, words) {
  if (!known.includes(value)) throw new Error(`${name}: “${String(value).slice(0, 40)}” is none of ${words}.`);
  return value;
}

function readFragment(fragment) {
  const [state, problems] = [{ ...START }, []];
  for (const [name, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    try {
      if (!Object.hasOwn(START, name)) throw new Error(`The link says ${name.slice(0, 40)}, which this page does not have.`);
      state[name] = readValue(name, text);
    } catch (error) {
      problems.push(error.message);
    }
  }
  try {
    requireSize(state);  // each value is within its bounds; together they may be too many tiles for a browser
  } catch (error) {
    return { state: { ...START }, problems: [...problems, error.message] };
  }
  return { state, problems };
}

function linkTo(state, names) {
  const said = names.filter((name) => state[name] !== START[name] || names.length < 3).map((name) => [name, state[name]]);
  return `${location.href.split("#")[0]}#${new URLSearchParams(said)}`;
}

async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// A panel as Python has it: a JSON head, then the arrays that it names, [offset, length, type] each.
const panels = new Map();
async function loadedPanel(name) {
  if (!panels.has(name)) {
    const buffer = await inflated(OPEN_DATA.panels[name]);
    const size = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    const unpack = (value) => {
      if (!value || typeof value !== "object") return value;
      if (Array.isArray(value)) return value.map(unpack);
      if (value.at) return numbers({ type: value.at[2], data: new DataView(buffer, 4 + size + value.at[0], value.at[1]) });
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, unpack(entry)]));
    };
    panels.set(name, unpack(head));
  }
  return panels.get(name);
}

class OpenPage {
  constructor() {
    document.documentElement.classList.add("has-js");
    this.at = (id) => document.getElementById(id);
    const { state, problems } = readFragment(location.hash);
    this.state = state;
    this.views = {};
    this.setUp();
    this.say(problems);
    this.show(Object.keys(state));
    window.addEventListener("hashchange", () => this.restore());
  }

  setUp() {
    const tokens = this.at("tokens");
    [tokens.min, tokens.max, tokens.step] = [0, OPEN_DATA.sizes.length - 1, 1];
    tokens.addEventListener("input", () => this.change({ tokens: OPEN_DATA.sizes[tokens.value] }));
    this.at("plan").addEventListener("change", (event) => this.change({ plan: event.target.value }));
    this.at("blocks").addEventListener("input", (event) => this.change({ blocks: Number(event.target.value) }));
    this.form = document.querySelector("form.pair");
    this.form.addEventListener("input", (event) => this.typed(event.target));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    for (const button of document.querySelectorAll("button.share")) button.addEventListener("click", () => this.copy(button));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  restore() {
    const { state, problems } = readFragment(location.hash);
    this.say(problems);
    if (!problems.length) this.change(state);
  }

  say(problems) {
    const box = this.at("problem");
    box.hidden = !problems.length;
    box.textContent = problems.length ? `${problems.join(" ")} The page shows the last setting that is possible.` : "";
  }

  // A field of the form; what cannot be is said, and the picture stays.
  typed(field) {
    try {
      const value = readValue(field.name, field.value);
      requireSize({ ...this.state, [field.name]: value });
      field.removeAttribute("aria-invalid");
      this.say([]);
      this.change({ [field.name]: value }, field);
    } catch (error) {
      field.setAttribute("aria-invalid", "true");
      this.say([error.message]);
    }
  }

  change(values, from = null) {
    const changed = Object.keys(values).filter((name) => values[name] !== this.state[name]);
    Object.assign(this.state, values);
    this.show(changed, from);
    clearTimeout(this.linking);
    this.linking = setTimeout(() => {
      const names = Object.keys(START).filter((name) => this.state[name] !== START[name]);
      history.replaceState(null, "", names.length ? `#${new URLSearchParams(names.map((name) => [name, this.state[name]]))}` : location.pathname + location.search);
    }, 300);
  }

  show(changed, from = null) {
    const has = (...names) => names.some((name) => changed.includes(name));
    for (const field of this.form.elements) {
      if (field.name && field !== from && has(field.name)) field.value = this.state[field.name];
    }
    if (has("tokens", "plan")) this.showWhatIf();
    if (has("blocks")) this.showWaves();
    if (has("c1", "t1", "b1", "c2", "t2", "b2", "rows", "sms", "gap", "wait", "policy")) this.showPair();
  }

  async showWhatIf() {
    const { tokens, plan } = this.state;
    this.at("tokens").value = OPEN_DATA.sizes.indexOf(tokens);
    this.at("tokens").setAttribute("aria-valuetext", `${tokens} tokens`);
    this.at("tokens-value").textContent = tokens.toLocaleString("en");
    this.at("plan").value = plan;
    const { heads, gains, sizes } = OPEN_DATA;
    const found = await Promise.all([loadedPanel(`${tokens} stream`), loadedPanel(`${tokens} ${plan}`)]);
    if (this.state.tokens !== tokens || this.state.plan !== plan) return; // another one was asked for since
    const strip = { label: "tokens", values: sizes, gains: gains[plan], at: tokens };
    this.draw("what-if", { ...heads[`${tokens} ${plan}`], panels: found }, strip, (size) => this.change({ tokens: size }));
  }

  showPair() {
    const spec = specOf(this.state);
    const scene = pairScene(spec);
    const rows = stripRows(this.state.rows);
    const gains = rows.map((count) => (count * (this.state.c1 + this.state.c2) > MOST_TILES ? null : gainOf({ ...spec, rows: count })));
    const strip = { label: "tile rows", values: rows, gains, at: this.state.rows };
    this.draw("pair", scene, strip, (count) => this.change({ rows: count }));
  }

  // Makes a view the first time, then gives it its scene.
  draw(id, scene, strip, picked) {
    if (!this.views[id]) {
      const model = new PageModel({ scene, strip });
      model.on("change:picked", () => picked(model.get("picked")));
      this.views[id] = model;
      render({ model, el: this.at(`${id}-picture`) });
    } else {
      this.views[id].values.strip = strip; // drawn with the scene
      this.views[id].set("scene", scene);
    }
    this.at(`${id}-picture`).dataset.shown = scene.title;
  }

  showWaves() {
    const { blocks } = this.state;
    this.at("blocks").value = blocks;
    this.at("blocks-value").textContent = blocks;
    this.waves ??= new Picture(this.at("waves-picture"), {
      name: "waves",
      size: (width) => wavesLayout(width).height,
      paint: (pen) => drawWaves(pen, this.state.blocks),
      label: () => wavesTitle(this.state.blocks),
    });
    this.waves.draw();
  }

  async copy(button) {
    const link = linkTo(this.state, button.dataset.part.split(" "));
    try {
      await navigator.clipboard.writeText(link);
      button.textContent = "Copied";
    } catch {
      window.prompt("The link to this setting", link);
    }
    setTimeout(() => (button.textContent = "Copy link"), 2000);
  }

  // Where nothing else has the focus: arrows change the size, space races.
  key(event) {
    if (event.target !== document.body || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const size = OPEN_DATA.sizes[OPEN_DATA.sizes.indexOf(this.state.tokens) + step];
    if (step && size) this.change({ tokens: size });
    else if (event.key === " ") this.at("what-if-picture").querySelector(".wavesim-race")?.click();
    else return;
    event.preventDefault();
  }
}

function specOf(state) {
  const ns = (us) => Math.max(1, Math.round(1000 * us));
  return {
    sms: state.sms, rows: state.rows, policy: state.policy, gapNs: Math.round(1000 * state.gap), waitNs: Math.round(1000 * state.wait),
    kernels: [{ columns: state.c1, ns: ns(state.t1), perSm: state.b1 }, { columns: state.c2, ns: ns(state.t2), perSm: state.b2 }],
  };
}

function requireSize({ rows, c1, c2 }) {
  const tiles = rows * (c1 + c2);
  if (tiles > MOST_TILES) throw new Error(`${tiles.toLocaleString("en")} tiles are too many for this page: at most ${MOST_TILES.toLocaleString("en")}. Use wavesim itself.`);
}

function stripRows(rows) {
  const step = Math.max(1, Math.round(rows / 12));
  const first = rows % step || step;
  return Array.from({ length: 24 }, (_, index) => first + index * step);
}

function gainOf(spec) {
  const time = (policy) => simulatePair({ ...spec, policy }).makespanNs;
  return 100 * (1 - time(spec.policy) / time("stream"));
}

// --- the waves of one kernel ---

const [WAVE_SMS, STAIRS_PX, WAVES_PX, MOST_WAVES] = [132, 84, 132, 4];

function wavesLayout(width) {
  const { left } = sides(width);
  const top = headingHeight("133 blocks take 2 waves, twice as long as 132", ["1 of 132 SMs is busy in the last wave"], width - left - 12, PLAN_TITLE);
  return { left, right: width - 12, top, ground: top + STAIRS_PX, waves: top + STAIRS_PX + 46, height: top + STAIRS_PX + 46 + WAVES_PX + 40 };
}

function wavesTitle(blocks) {
  const waves = Math.ceil(blocks / WAVE_SMS);
  const last = blocks - (waves - 1) * WAVE_SMS;
  const idle = Math.round(100 * (1 - blocks / (waves * WAVE_SMS)));
  return `${blocks} block${blocks > 1 ? "s" : ""}: ${waves} wave${waves > 1 ? "s" : ""}, ${last} of 132 SMs busy in the last, ${idle} % of SM time idle`;
}

function drawWaves(pen, blocks) {
  const { theme } = pen;
  const { left, right, ground, waves: top } = wavesLayout(pen.width);
  drawHeading(pen, wavesTitle(blocks), [], left, right - left, PLAN_TITLE);
  const at = (count) => left + ((right - left) * count) / (MOST_WAVES * WAVE_SMS);
  const up = (waves) => ground - (STAIRS_PX * waves) / (MOST_WAVES + 0.4);
  const stairs = [];
  for (let wave = 1; wave <= MOST_WAVES; wave++) {
    stairs.push([at((wave - 1) * WAVE_SMS), up(wave)], [at(wave * WAVE_SMS), up(wave)]);
    pen.text(at(wave * WAVE_SMS), ground + 14, String(wave * WAVE_SMS), { size: 12, color: theme.muted, align: "right" });
    pen.path([[left, up(wave)], [right, up(wave)]], { stroke: theme.grid, line: 1 });
    pen.text(left - 8, up(wave), String(wave), { size: 12, color: theme.muted, align: "right" });
  }
  pen.path(stairs, { stroke: theme.good, line: 2.4 });
  pen.text(left, up(MOST_WAVES) - 10, "waves, which is time, over blocks", { size: 12, color: theme.muted });
  const now = Math.ceil(blocks / WAVE_SMS);
  pen.path([[at(blocks), ground], [at(blocks), up(now)]], { stroke: theme.ink, line: 1.6, dash: [3, 3] });
  pen.rect(at(blocks) - 5, up(now) - 5, 10, 10, theme.bad, { radius: 5 });
  for (let wave = 0; wave < now; wave++) {
    const [x, width] = [left + ((right - left) * wave) / MOST_WAVES, (right - left) / MOST_WAVES - 4];
    const busy = Math.min(WAVE_SMS, blocks - wave * WAVE_SMS);
    pen.rect(x, top + busy, width, WAVES_PX - busy, "idle");
    pen.rect(x, top, width, Math.max(2, busy), theme.stages[0]);
    pen.text(x, top + WAVES_PX + 16, `wave ${wave + 1}`, { size: 12, color: theme.muted });
  }
  pen.text(left - 8, top + 8, pen.width < NARROW_PX ? "132" : "132 SMs", { size: 11, color: theme.muted, align: "right" });
}

new OpenPage();
