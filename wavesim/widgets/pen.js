// Two pens with the same strokes: one draws on a canvas, the other writes SVG. A picture is drawn by one
// function for both, so that what is exported is what is on the screen. Coordinates are CSS pixels.
// A fill is a colour or one of the hatches "waiting" and "idle".

const HATCHES = { waiting: ["waiting", "waiting_hatch", -1], idle: ["idle", "idle_hatch", 1] };
const HATCH_PX = 8;
const measuring = document.createElement("canvas").getContext("2d");

function fontOf({ size = 13, weight = 400 } = {}) {
  return `${weight} ${size}px ${FONT}`;
}

function textWidth(words, style) {
  measuring.font = fontOf(style);
  return measuring.measureText(words).width;
}

// The words in lines no wider than `width`.
function wrapped(words, width, style) {
  const lines = [""];
  for (const word of words.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (lines.at(-1) && textWidth(longer, style) > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

// What marks mean, from left to right, on as many lines as that takes. `draw(x, y)` makes a mark 12 px wide
// around the height y.
function drawKey(pen, left, y, entries) {
  for (const [index, [x, line]] of keyPlaces(entries, left, pen.width).entries()) {
    const [words, draw] = entries[index];
    draw(x, y + 20 * line, pen);
    pen.text(x + 18, y + 20 * line, words, { size: 12, color: pen.theme.muted });
  }
}

// Where each entry of a key goes: from the left, and on which line.
function keyPlaces(entries, left, width) {
  let [x, line] = [left, 0];
  return entries.map(([words]) => {
    const wide = textWidth(words, { size: 12 }) + 18;
    if (x + wide > width && x > left) [x, line] = [left, line + 1];
    const place = [x, line];
    x += wide + 22;
    return place;
  });
}

function keyLines(entries, left, width) {
  return 1 + (keyPlaces(entries, left, width).at(-1)?.[1] ?? 0);
}

// A mark of that key in a fill; the palest has an edge.
function swatch(pen, fill, style = {}) {
  const edge = ["idle", pen.theme.idle].includes(fill) ? { stroke: pen.theme.idle_hatch } : {};
  return (x, y) => pen.rect(x, y - 6, 12, 12, fill, { radius: 3, ...edge, ...style });
}

// Title, muted lines below it; returns the y below them.
function drawHeading(pen, title, lines, x, width, size = 20) {
  let y = 18;
  for (const line of wrapped(title, width, { size })) {
    pen.text(x, y, line, { size });
    y += size + 7;
  }
  for (const text of lines) {
    for (const line of wrapped(text, width, { size: 13 })) {
      pen.text(x, y, line, { size: 13, color: pen.theme.muted });
      y += 19;
    }
  }
  return y + 4;
}

function headingHeight(title, lines, width, size = 20) {
  const titles = wrapped(title, width, { size }).length;
  const rest = lines.map((line) => wrapped(line, width, { size: 13 }).length).reduce((a, b) => a + b, 0);
  return 22 + (size + 7) * titles + 19 * rest;
}

function tickStep(range, most) {
  const rough = range / Math.max(2, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  return range <= 16 ? Math.max(1, step) : step;
}

class CanvasPen {
  constructor(canvas, width, height, theme, scale = window.devicePixelRatio || 1) {
    this.theme = theme;
    [this.width, this.height] = [width, height];
    const [columns, rows] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== columns || canvas.height !== rows) [canvas.width, canvas.height] = [columns, rows];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.context = canvas.getContext("2d");
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.patterns = {};
    this.rect(0, 0, width, height, theme.background);
  }

  fill(name) {
    if (!(name in HATCHES)) return name;
    this.patterns[name] ??= this.context.createPattern(hatchTile(this.theme, name), "repeat");
    return this.patterns[name];
  }

  rect(x, y, width, height, fill, { radius = 0, stroke = null, line = 1, dash = [] } = {}) {
    const pen = this.context;
    if (!radius && !stroke) {
      if (this.lastFill !== fill) pen.fillStyle = this.fill(fill);
      this.lastFill = fill;
      pen.fillRect(x, y, width, height);
      return;
    }
    pen.beginPath();
    pen.roundRect(x, y, width, height, Math.max(0, Math.min(radius, width / 2, height / 2)));
    if (fill) {
      pen.fillStyle = this.fill(fill);
      this.lastFill = fill;
      pen.fill();
    }
    if (stroke) {
      [pen.strokeStyle, pen.lineWidth] = [stroke, line];
      pen.setLineDash(dash);
      pen.stroke();
    }
  }

  path(points, { stroke = null, fill = null, line = 2, dash = [] } = {}) {
    const pen = this.context;
    pen.beginPath();
    points.forEach(([x, y], index) => (index ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    if (fill) {
      pen.fillStyle = this.fill(fill);
      this.lastFill = fill;
      pen.fill();
    }
    if (stroke) {
      [pen.strokeStyle, pen.lineWidth, pen.lineJoin] = [stroke, line, "round"];
      pen.setLineDash(dash);
      pen.stroke();
    }
  }

  // What `draw` draws between two places, from left to right.
  clipped([left, right], draw) {
    const pen = this.context;
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, this.height);
    pen.clip();
    draw();
    pen.restore();
    this.lastFill = null;
  }

  text(x, y, words, { size = 13, weight = 400, color = this.theme.ink, align = "left", base = "middle" } = {}) {
    const pen = this.context;
    pen.font = fontOf({ size, weight });
    [pen.fillStyle, this.lastFill, pen.textAlign, pen.textBaseline] = [color, color, align, base];
    pen.fillText(words, x, y);
  }
}

// One cell of a hatch that repeats without a seam.
function hatchTile(theme, name) {
  const [ground, ink, slope] = HATCHES[name];
  const tile = document.createElement("canvas");
  [tile.width, tile.height] = [HATCH_PX, HATCH_PX];
  const pen = tile.getContext("2d");
  pen.fillStyle = theme[ground];
  pen.fillRect(0, 0, HATCH_PX, HATCH_PX);
  [pen.strokeStyle, pen.lineWidth] = [theme[ink], 1.6];
  pen.beginPath();
  for (const shift of [-HATCH_PX, 0, HATCH_PX]) {
    pen.moveTo(shift - 2, slope > 0 ? HATCH_PX + 2 : -2);
    pen.lineTo(shift + HATCH_PX + 2, slope > 0 ? -2 : HATCH_PX + 2);
  }
  pen.stroke();
  return tile;
}

const ANCHORS = { left: "start", center: "middle", right: "end" };
const BASES = { middle: "central", top: "hanging", bottom: "text-after-edge", alphabetic: "alphabetic" };

class SvgPen {
  constructor(width, height, theme) {
    Object.assign(this, { width, height, theme, parts: [], isForFile: true });
    this.rect(0, 0, width, height, theme.background);
  }

  fill(name) {
    return name in HATCHES ? `url(#wavesim-${name})` : name;
  }

  rect(x, y, width, height, fill, { radius = 0, stroke = null, line = 1, dash = [] } = {}) {
    const corner = radius ? ` rx="${round(Math.min(radius, width / 2, height / 2))}"` : "";
    const place = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    this.parts.push(`<rect ${place}${corner} ${this.paint({ fill, stroke, line, dash })}/>`);
  }

  path(points, style = {}) {
    const steps = points.map(([x, y], index) => `${index ? "L" : "M"}${round(x)} ${round(y)}`).join("");
    this.parts.push(`<path d="${steps}" ${this.paint({ line: 2, dash: [], fill: null, stroke: null, ...style })}/>`);
  }

  clipped([left, right], draw) {
    const name = `wavesim-clip-${this.parts.length}`;
    const box = `<rect x="${round(left)}" y="0" width="${round(right - left)}" height="${this.height}"/>`;
    this.parts.push(`<clipPath id="${name}">${box}</clipPath><g clip-path="url(#${name})">`);
    draw();
    this.parts.push("</g>");
  }

  paint({ fill, stroke, line, dash }) {
    const edge = stroke ? ` stroke="${stroke}" stroke-width="${line}" stroke-linejoin="round"` : "";
    const dashes = stroke && dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    return `fill="${fill ? this.fill(fill) : "none"}"${edge}${dashes}`;
  }

  text(x, y, words, { size = 13, weight = 400, color = this.theme.ink, align = "left", base = "middle" } = {}) {
    const style = `font-size="${size}" font-weight="${weight}" fill="${color}" text-anchor="${ANCHORS[align]}"`;
    const place = `x="${round(x)}" y="${round(y)}" dominant-baseline="${BASES[base]}"`;
    this.parts.push(`<text ${place} ${style}>${escaped(words)}</text>`);
  }

  get svg() {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    const hatches = Object.entries(HATCHES).map(([name, [ground, ink, slope]]) => {
      const line = slope > 0 ? `M-2 ${HATCH_PX + 2}L${HATCH_PX + 2} -2` : `M-2 -2L${HATCH_PX + 2} ${HATCH_PX + 2}`;
      const box = `width="${HATCH_PX}" height="${HATCH_PX}"`;
      const cell = `<rect ${box} fill="${this.theme[ground]}"/><path d="${line}" stroke="${this.theme[ink]}" stroke-width="1.6"/>`;
      return `<pattern id="wavesim-${name}" ${box} patternUnits="userSpaceOnUse">${cell}</pattern>`;
    });
    const head = `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${escaped(FONT)}">`;
    return `${head}<defs>${hatches.join("")}</defs>${this.parts.join("")}</svg>`;
  }
}

function round(number) {
  return Math.round(number * 100) / 100;
}

// Controls and half surrogate pairs, which no SVG may hold, become the replacement character.
const UNSHOWN = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]|\p{Cs}/gu;

function escaped(words) {
  return String(words).replace(UNSHOWN, "\ufffd").replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]);
}
