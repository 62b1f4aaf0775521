// Drops empty tooltips, names the sliders' handles for screen readers, which ipywidgets leaves nameless, and keeps JupyterLab's own
// shortcuts away from keys pressed inside a widget: arrow keys would move between cells.

const TRY_MS = 150;
const MOST_TRIES = 200; // to find sliders; a widget may have none

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

// ipywidgets writes the tooltip that a control does not have as the word null.
function dropNullTitles(root) {
  for (const named of root.querySelectorAll('[title="null"]')) named.removeAttribute("title");
}

// Keys pressed in the widget are its own: neither a shortcut, nor the notebook's, which moves the focus.
function keepKeys(root) {
  if (root.hasAttribute("data-lm-suppress-shortcuts")) return;
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  root.addEventListener("keydown", (event) => event.stopPropagation());
}

function render({ el }) {
  // The sliders are made by other widgets, before or after this one.
  let tries = 0;
  const naming = setInterval(() => {
    const root = el.closest(".wavesim");
    if (root) {
      keepKeys(root);
      dropNullTitles(root);
    }
    tries += 1;
    if ((root && nameSliders(root)) || tries > MOST_TRIES) clearInterval(naming);
  }, TRY_MS);
  return () => clearInterval(naming);
}

export default { render };
