// Tells the kernel what the page looks like: light or dark theme, and how wide the widget may be.
// It also names the sliders' handles for screen readers, which ipywidgets leaves nameless.

const SETTLED_MS = 150; // a window being dragged sends one width at its end, not hundreds
const LEAST_CHANGE_PX = 8;

function isLight() {
  return document.body.dataset.jpThemeLight !== "false";
}

function nameSliders(root) {
  for (const slider of root.querySelectorAll(".widget-slider")) {
    const label = slider.querySelector(".widget-label");
    const value = slider.querySelector(".widget-readout");
    const handle = slider.querySelector(".noUi-handle");
    if (label && handle) {
      handle.setAttribute("aria-label", label.textContent);
      handle.setAttribute("aria-valuetext", value ? value.textContent : "");
    }
  }
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
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  const size = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const width = Math.floor(el.getBoundingClientRect().width);
      if (width > 0 && Math.abs(width - model.get("width")) >= LEAST_CHANGE_PX) tell("width", width);
      nameSliders(el.closest(".wavesim") || el);
    }, SETTLED_MS);
  });
  size.observe(el);
  tell("is_light", isLight());
  return () => {
    clearTimeout(timer);
    theme.disconnect();
    size.disconnect();
  };
}

export default { render };
