// What every drawn widget shares: a canvas that follows the page's theme and width, a card for what is
// hovered, buttons that save the picture, and numbers that arrive as bytes from a kernel or from a page.

const MIN_WIDTH = 300;
const KINDS = { uint8: Uint8Array, int16: Int16Array, int32: Int32Array, float32: Float32Array, float64: Float64Array };

// A typed array from {type, data}: `data` is a DataView from the kernel, base64 in a page without one. One stays as it is.
function numbers(packed) {
  if (ArrayBuffer.isView(packed)) return packed;
  const { type, data } = packed;
  let bytes;
  if (typeof data === "string") bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  else bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  return new KINDS[type](bytes.buffer);
}

function isDarkPage() {
  const { jpThemeLight: lab, vscodeThemeKind: code } = document.body.dataset;
  if (lab) return lab === "false";
  if (code) return code !== "vscode-light" && code !== "vscode-high-contrast-light";
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function pageTheme() {
  return THEMES[isDarkPage() ? "dark" : "light"];
}

// Calls back when the page's theme changes; returns what ends that.
function onTheme(callback) {
  const watch = new MutationObserver(callback);
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", callback);
  return () => {
    watch.disconnect();
    system.removeEventListener("change", callback);
  };
}

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A canvas under `el`. `size(width)` is the height it needs, `paint(pen)` draws it, `facts(x, y)` are the
// lines of the card at a place or null, `label()` says in a sentence what is seen; `more` makes files of other kinds.
class Picture {
  constructor(el, { name, size, paint, facts = () => null, label, more = {} }) {
    Object.assign(this, { size, paint, facts, label, name, drawn: 0, width: 0 });
    this.canvas = element("canvas", { role: "img" });
    this.card = element("div", { class: "wavesim-hover", hidden: true });
    this.saves = element("div", { class: "wavesim-saves" });
    for (const kind of ["PNG", "SVG", ...Object.keys(more)]) {
      const button = element("button", { type: "button", "aria-label": `Save the picture as ${kind}` }, kind);
      button.addEventListener("click", () => this.save(kind, more[kind]));
      this.saves.append(button);
    }
    this.root = element("div", { class: "wavesim-drawn" }, this.canvas, this.card, this.saves);
    el.append(this.root);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => (this.card.hidden = true));
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(this.root);
    this.endTheme = onTheme(() => this.draw());
    this.fit();
  }

  fit() {
    const width = Math.max(MIN_WIDTH, Math.floor(this.root.clientWidth));
    if (width === this.width || !this.root.isConnected) return;
    this.width = width;
    this.draw();
  }

  draw() {
    if (!this.width) return;
    this.paint(new CanvasPen(this.canvas, this.width, this.size(this.width), pageTheme()));
    this.canvas.setAttribute("aria-label", this.label());
    this.canvas.dataset.drawn = String(++this.drawn);
    this.root.dispatchEvent(new CustomEvent("wavesim-drawn", { bubbles: true }));
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const lines = this.facts(x, y);
    this.card.hidden = !lines;
    if (!lines) return;
    const [title, ...rest] = lines;
    this.card.replaceChildren(element("b", {}, title), ...rest.flatMap((line) => [element("br"), line]));
    const left = x + 16 + this.card.offsetWidth > this.width ? x - this.card.offsetWidth - 12 : x + 16;
    this.card.style.left = `${Math.max(0, left)}px`;
    this.card.style.top = `${Math.max(0, y - this.card.offsetHeight - 8)}px`;
  }

  svg(width = this.width, theme = pageTheme()) {
    const pen = new SvgPen(width, this.size(width), theme);
    this.paint(pen);
    return pen.svg;
  }

  save(kind, made = null) {
    const download = (blob) => {
      const address = URL.createObjectURL(blob);
      element("a", { href: address, download: `${this.name}.${kind.toLowerCase()}` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    };
    if (made) download(made());
    else if (kind === "SVG") download(new Blob([this.svg()], { type: "image/svg+xml" }));
    else this.canvas.toBlob(download);
  }

  end() {
    this.resized.disconnect();
    this.endTheme();
    this.root.remove();
  }
}

// `render` of a widget that shows its scene and no more. `layout(scene, width)` says where things are, and the height;
// `draw(pen, scene, layout)` draws them, `facts(scene, layout, x, y)` tells of what is hovered.
function sceneRenderer({ name, layout, draw, facts, label = (scene) => `${scene.title}. ${scene.subtitle}` }) {
  return ({ model, el }) => {
    let [scene, drawn] = [model.get("scene"), null];
    const picture = new Picture(el, {
      name,
      size: (width) => layout(scene, width).height,
      paint: (pen) => {
        drawn = layout(scene, pen.width);
        draw(pen, scene, drawn);
      },
      label: () => label(scene),
      facts: (x, y) => facts(scene, drawn, x, y),
    });
    const change = () => {
      scene = model.get("scene");
      picture.draw();
    };
    model.on("change:scene", change);
    el.wavesim = picture;
    return () => {
      model.off("change:scene", change);
      picture.end();
    };
  };
}

// The model of a page without a kernel: the values that were written into it, and who hears of changes.
class PageModel {
  constructor(values) {
    [this.values, this.hearers] = [values, {}];
  }
  get(name) {
    return this.values[name];
  }
  set(name, value) {
    this.values[name] = value;
    for (const heard of this.hearers[`change:${name}`] ?? []) heard();
  }
  save_changes() {}
  on(event, heard) {
    (this.hearers[event] ??= []).push(heard);
  }
  off(event, heard) {
    this.hearers[event] = this.hearers[event]?.filter((other) => other !== heard);
  }
}
