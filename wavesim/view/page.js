// Draws the page's figures in the reader's theme and again when it changes; needs no network.
(() => {
  const data = JSON.parse(document.getElementById("figures").textContent);
  const pattern = new RegExp(
    Object.keys(data.colours).map((c) => c.replace(/[()]/g, "\\$&")).sort((a, b) => b.length - a.length).join("|"), "g");
  const dark = (value) => {
    if (typeof value === "string") return value.startsWith("data:") ? value : value.replace(pattern, (c) => data.colours[c]);
    if (Array.isArray(value)) return value.map(dark);
    if (value && typeof value === "object") {
      if ("bdata" in value) return value; // numbers, not colours
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, dark(entry)]));
    }
    return value;
  };
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.querySelector("button.theme");
  let chosen = null;
  const draw = async () => {
    const isDark = chosen === null ? system.matches : chosen === "dark";
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light" : "Dark";
    if (!data.figures.length) return;
    const plotly = await window.wavesimPlotly;
    data.figures.forEach((figure, index) => {
      const spec = isDark ? { data: dark(figure.data), layout: dark(figure.layout) } : structuredClone(figure);
      if (isDark) spec.layout.meta?.darkImages?.forEach((source, place) => { spec.layout.images[place].source = source; });
      plotly.react(`figure-${index}`, spec.data, spec.layout, { displayModeBar: false });
    });
  };
  const drawOrSay = () => draw().catch((error) => {
    for (const box of document.querySelectorAll(".figure")) box.textContent = `Not drawn: ${error.message}. The words and tables say the same.`;
  });
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    drawOrSay();
  });
  system.addEventListener("change", () => { chosen = null; drawOrSay(); });
  drawOrSay();
})();
