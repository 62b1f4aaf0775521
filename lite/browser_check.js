// Says at the bottom of the page what this browser does not allow, and what follows from it.
(() => {
  const can = (attempt) => {
    try {
      attempt();
      return true;
    } catch {
      return false;
    }
  };
  const sentences = [];
  if (typeof WebAssembly !== "object" || typeof Worker !== "function")
    sentences.push("This browser runs no WebAssembly in workers, so that Python cannot start: open the page in a " +
      "current Chrome, Edge, Firefox or Safari.");
  if (!can(() => window.localStorage.getItem("wavesim")) || !can(() => window.indexedDB.open))
    sentences.push("This browser lets the page store nothing: notebooks run, and what you change is lost when " +
      "the page is closed. Allow cookies and site data for this address, or download what you want to keep.");
  if (!sentences.length) return;
  const show = () => {
    const box = document.createElement("div");
    box.id = "wavesim-missing";
    box.setAttribute("role", "alert");
    box.textContent = sentences.join(" ");
    box.style.cssText = "position:fixed;inset:auto 0 0 0;z-index:99999;padding:10px 16px;background:#111827;" +
      "color:#F3F4F6;font:14px/1.5 sans-serif";
    document.documentElement.append(box);
  };
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", show) : show();
})();
