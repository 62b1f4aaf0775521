// The wave player as a film: one trace after another as one SVG, whose frames a style sheet shows in turn. It moves
// where no script runs, as in a README; for who asks for less motion, and on paper, it stands at its last frame.

const FRAMES_PER_S = 10;
const HOLD_S = 3; // the end of a trace stays for so long
const MIN_FILM_PX = 640;

// Frames of one trace: {svg parts, seconds}; equal ones in a row are one.
function framesOf(scene, width, height, theme, { secondsPerNs, endNs }) {
  const panel = { ...unpackPanel(scene.panels[0]), endNs };
  const steps = stepsOf(panel, scene);
  const layout = waveLayout(scene, panel, width);
  const count = Math.ceil(panel.makespan * secondsPerNs * FRAMES_PER_S);
  const frames = [];
  for (let index = 0; index <= count; index++) {
    const now = Math.min(panel.makespan, (index / count) * panel.makespan);
    const state = stateAfter(panel, steps, steps.filter((step) => step.ns <= now).length);
    const pen = new SvgPen(width, height, theme);
    drawWave(pen, scene, panel, layout, { ...state, ns: now }, null);
    const seconds = index === count ? HOLD_S : 1 / FRAMES_PER_S;
    const isSame = frames.length && frames.at(-1).parts.join("") === pen.parts.join("");
    if (isSame) frames.at(-1).seconds += seconds;
    else frames.push({ parts: pen.parts, seconds });
  }
  return frames;
}

// The same pictures of fewer parts: two that follow each other wherever either stands are one.
function withJoinedParts(frames) {
  const [after, before] = [new Map(), new Map()];
  const note = (known, part, beside) => known.set(part, known.has(part) && known.get(part) !== beside ? null : beside);
  for (const { parts } of frames) {
    parts.forEach((part, at) => {
      note(after, part, parts[at + 1] ?? null);
      note(before, part, parts[at - 1] ?? null);
    });
  }
  const isOne = (left, right) => after.get(left) === right && before.get(right) === left;
  return frames.map(({ parts, seconds }) => {
    const runs = [];
    parts.forEach((part, at) => (at && isOne(parts[at - 1], part) ? runs.at(-1).push(part) : runs.push([part])));
    return { parts: runs.map((run) => (run.length > 1 ? `<g>${run.join("")}</g>` : run[0])), seconds };
  });
}

// Each frame is hidden but for its turn. No part of a picture is written twice: what several frames hold stands
// among the definitions.
function filmSvg(scenes, width, theme, seconds) {
  const height = Math.max(...scenes.map((scene) => waveLayout(scene, unpackPanel(scene.panels[0]), width).height));
  const endNs = Math.max(...scenes.map((scene) => scene.panels[0].makespan));
  const pace = { secondsPerNs: seconds / endNs, endNs };
  const frames = withJoinedParts(scenes.flatMap((scene) => framesOf(scene, width, height, theme, pace)));
  const whole = frames.reduce((sum, frame) => sum + frame.seconds, 0);
  const [names, groups, turns] = [new Map(), [], []];
  let begun = 0;
  frames.forEach((frame, index) => {
    const uses = frame.parts.map((part) => {
      if (!names.has(part)) names.set(part, `wavesim-${names.size}`);
      return `<use href="#${names.get(part)}"/>`;
    });
    groups.push(`<g class="frame" id="wavesim-frame-${index}">${uses.join("")}</g>`);
    const [from, upto] = [begun, begun + frame.seconds].map((at) => `${round((100 * at) / whole)}%`);
    const before = index ? "0%{visibility:hidden}" : "";
    const after = index < frames.length - 1 ? `${upto}{visibility:hidden}` : "";
    turns.push(`@keyframes turn-${index}{${before}${from}{visibility:visible}${after}}`);
    turns.push(`#wavesim-frame-${index}{animation:turn-${index} ${round(whole)}s step-end infinite}`);
    begun += frame.seconds;
  });
  const rest = `.frame{visibility:hidden}#wavesim-frame-${frames.length - 1}{visibility:visible}`;
  const moving = `@media screen and (prefers-reduced-motion:no-preference){${turns.join("")}}`;
  const pen = new SvgPen(width, height, theme);
  const parts = [...names].map(([part, name]) => part.replace(/^<(\w+)/, `<$1 id="${name}"`));
  pen.parts = [`<style>${rest}${moving}</style><defs>${parts.join("")}</defs>`, ...groups];
  return pen.svg;
}

function render({ model, el }) {
  const { scenes, seconds } = model.get("scene");
  const root = element("div", { class: "wavesim-film", role: "img", "aria-label": scenes.map((scene) => scene.title).join(", then ") });
  el.append(root);
  const svg = (width = Math.max(MIN_FILM_PX, root.clientWidth)) => filmSvg(scenes, width, pageTheme(), seconds);
  const show = () => (root.innerHTML = svg());
  const endTheme = onTheme(show);
  show();
  el.wavesim = { svg };
  return endTheme;
}

export default { render };
