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
  const show = (id, text) => {
    const box = document.createElement("div");
    box.id = id;
    box.setAttribute("role", id === "wavesim-missing" ? "alert" : "status");
    box.textContent = text;
    box.style.cssText = "position:fixed;inset:auto 0 0 0;z-index:99999;padding:10px 16px;background:#111827;" +
      "color:#F3F4F6;font:14px/1.5 sans-serif";
    document.documentElement.append(box);
    return box;
  };
  // Until the kernel of what is open answers, which takes ten seconds the first time.
  const wait = () => {
    const began = performance.now();
    const box = show("wavesim-starting", "Python is starting in this page: about ten seconds the first time, fewer later. " +
      "Cells that you run now follow then.");
    const timer = setInterval(() => {
      const kernel = window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.session?.kernel;
      const isUp = kernel && ["idle", "busy"].includes(kernel.status) && kernel.connectionStatus === "connected";
      if (!isUp && performance.now() - began > 120_000) box.textContent = "Python has not started in two minutes: reload the page.";
      if (!isUp) return;
      clearInterval(timer);
      box.remove();
    }, 250);
  };
  const say = () => (sentences.length ? show("wavesim-missing", sentences.join(" ")) : wait());
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", say) : say();
})();
