// Tells the kernel what the page looks like: light or dark theme, and how wide the widget may be.
// It also names the sliders' handles for screen readers, which ipywidgets leaves nameless, and keeps
// JupyterLab's own shortcuts away from keys pressed inside a widget: arrow keys would move between cells.

const SETTLED_MS = 150; // a window being dragged sends one width at its end, not hundreds
const LEAST_CHANGE_PX = 8;
const MOST_TRIES = 200; // to find sliders; a widget may have none

function isLight() {
  const { jpThemeLight: lab, vscodeThemeKind: code } = document.body.dataset;
  if (lab || !code) return lab !== "false";
  return code === "vscode-light" || code === "vscode-high-contrast-light";
}

// Names every slider under the root once its parts are there; true when none is left without a name.
function nameSliders(root) {
  const sliders = [...root.querySelectorAll(".widget-slider")];
  for (const slider of sliders) {
    const label = slider.querySelector(".widget-label");
    const value = slider.querySelector(".widget-readout");
    const handle = slider.querySelector(".noUi-handle");
    if (!label || !value || !handle || handle.hasAttribute("aria-label")) continue;
    const say = () => {
      handle.setAttribute("aria-label", label.textContent);
      handle.setAttribute("aria-valuetext", value.textContent);
    };
    const watch = new MutationObserver(say);
    for (const part of [label, value]) watch.observe(part, { childList: true, characterData: true, subtree: true });
    say();
  }
  return sliders.length > 0 && sliders.every((slider) => slider.querySelector(".noUi-handle[aria-label]"));
}

// Keys pressed in the widget are its own: neither a shortcut, nor the notebook's, which moves the focus.
function keepKeys(root) {
  if (root.hasAttribute("data-lm-suppress-shortcuts")) return;
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  root.addEventListener("keydown", (event) => event.stopPropagation());
}

function render({ model, el }) {
  let timer = 0;
  const tell = (name, value) => {
    if (model.get(name) !== value) {
      model.set(name, value);
      model.save_changes();
    }
  };
  const theme = new MutationObserver(() => tell("is_light", isLight()));
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  const size = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const width = Math.floor(el.getBoundingClientRect().width);
      if (width > 0 && Math.abs(width - model.get("width")) >= LEAST_CHANGE_PX) tell("width", width);
    }, SETTLED_MS);
  });
  size.observe(el);
  // The sliders are made by other widgets, before or after this one.
  let tries = 0;
  const naming = setInterval(() => {
    const root = el.closest(".wavesim");
    if (root) keepKeys(root);
    tries += 1;
    if ((root && nameSliders(root)) || tries > MOST_TRIES) clearInterval(naming);
  }, SETTLED_MS);
  tell("is_light", isLight());
  return () => {
    clearTimeout(timer);
    clearInterval(naming);
    theme.disconnect();
    size.disconnect();
  };
}

export default { render };
