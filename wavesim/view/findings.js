// Puts each reason beside its line and draws arrows from a wait or post to what it orders, or should.
document.addEventListener("DOMContentLoaded", () => {
  const SVG = "http://www.w3.org/2000/svg";
  const [NEAREST, STEP, LANES, GAP] = [52, 9, 5, 10]; // pixels from the left; lanes that arrows are spread over

  const made = (parent, tag, attributes) => {
    const node = parent.appendChild(document.createElementNS(SVG, tag));
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const middle = (row, code) => row.getBoundingClientRect().top - code.getBoundingClientRect().top + row.offsetHeight / 2;
  const verdictOf = (reason) => ["wrong", "unknown", "right"].find((word) => reason.classList.contains(word));

  const prepared = (listing) => {
    const code = listing.querySelector(".code");
    const rows = new Map([...code.querySelectorAll(".line")].map((row) => [row.dataset.at, row]));
    const reasons = [...listing.querySelectorAll(".reason")].map((node) => ({
      node,
      row: rows.get(node.dataset.at),
      others: (node.dataset.others ?? "").split(" ").map((at) => rows.get(at)).filter(Boolean),
    }));
    return { listing, code, reasons, svg: listing.querySelector(".arrows"), column: listing.querySelector(".reasons") };
  };

  const place = ({ code, reasons, column }) => {
    const isBeside = column.getBoundingClientRect().left > code.getBoundingClientRect().right;
    column.classList.toggle("placed", isBeside);
    column.style.minHeight = "";
    if (!isBeside) return;
    let free = 0;
    const sorted = reasons.map((one) => ({ ...one, y: one.row ? middle(one.row, code) - 20 : 0 })).sort((a, b) => a.y - b.y);
    for (const { node, y } of sorted) {
      const top = Math.max(free, y);
      node.style.top = `${top}px`;
      free = top + node.offsetHeight + GAP;
    }
    column.style.minHeight = `${free}px`;
  };

  const draw = ({ code, reasons, svg }) => {
    svg.replaceChildren();
    const taken = []; // of each lane, the spans drawn in it
    for (const reason of reasons) {
      if (!reason.row || !reason.others.length) continue;
      const from = middle(reason.row, code);
      const ends = reason.others.filter((row) => row !== reason.row).map((row) => middle(row, code));
      const [low, high] = [Math.min(from, ...ends), Math.max(from, ...ends)];
      let lane = 0;
      while (lane < LANES - 1 && (taken[lane] ?? []).some(([a, b]) => a < high + 4 && low - 4 < b)) lane += 1;
      (taken[lane] ??= []).push([low, high]);
      reason.group = made(svg, "g", { class: verdictOf(reason.node) });
      const x = NEAREST - 8 - STEP * lane;
      for (const end of ends) {
        const to = end + 4 * (lane % 3) - 4; // where several arrows end, beside each other
        const bend = Math.min(6, Math.abs(to - from) / 2) * Math.sign(to - from);
        const curve = `M62 ${from}H${x + 6}Q${x} ${from} ${x} ${from + bend}V${to - bend}Q${x} ${to} ${x + 6} ${to}H56`;
        made(reason.group, "path", { class: verdictOf(reason.node), d: curve });
        made(reason.group, "path", { class: "head", d: `M63 ${to}l-8 -4v8z` });
      }
    }
  };

  const light = ({ listing, reasons }, chosen) => {
    listing.classList.toggle("lit", Boolean(chosen?.group));
    for (const one of reasons)
      for (const node of [one.node, one.row, one.group, ...one.others]) node?.classList.remove("lit");
    if (chosen) for (const node of [chosen.node, chosen.row, chosen.group, ...chosen.others]) node?.classList.add("lit");
  };

  const listings = [...document.querySelectorAll(".listing")].map(prepared);
  const refresh = () => listings.forEach((one) => { place(one); draw(one); });
  for (const one of listings) {
    for (const reason of one.reasons) {
      for (const node of [reason.node, reason.row]) {
        node?.addEventListener("mouseenter", () => light(one, reason));
        node?.addEventListener("mouseleave", () => light(one, null));
      }
      reason.node.addEventListener("focus", () => light(one, reason));
      reason.node.addEventListener("blur", () => light(one, null));
    }
    for (const button of one.listing.parentElement.querySelectorAll("button.jump")) {
      const reason = one.reasons.find(({ node }) => node.dataset.at === button.dataset.at);
      button.addEventListener("click", () => {
        reason?.row?.scrollIntoView({ block: "center", behavior: "smooth" });
        reason?.node.focus({ preventScroll: true });
      });
    }
    one.listing.addEventListener("toggle", refresh, true);
  }
  window.addEventListener("resize", refresh);
  refresh();
});
