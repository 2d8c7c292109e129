// The heat map of nodes on a canvas: 10,000 cells are drawn in some milliseconds.
"use strict";

(() => {
  const tip = document.getElementById("map-tip");
  const canvas = document.getElementById("map");
  if (!canvas) return;
  const GAP = 1;
  let data = null;
  // How often the nodes were asked for: an answer that another one has overtaken is not drawn.
  let asked = 0;
  let size = 0;
  let across = 0;
  let at = -1;
  // Height of the line above a part, and the parts with their first cell and their upper edge.
  const LINE = 18;
  let blocks = [];

  function dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  // From a quiet to a strong colour, with a lightness that changes steadily, so that it is read without seeing hues.
  function colour(share) {
    if (share === null) return dark() ? "#2b352f" : "#e3e8e4";
    const light = dark() ? 24 + 46 * share : 90 - 56 * share;
    return `hsl(${150 - 125 * share} ${30 + 45 * share}% ${light}%)`;
  }

  function layout() {
    const width = canvas.clientWidth;
    const count = data.count;
    size = Math.max(5, Math.min(34, Math.floor(Math.sqrt((width * Math.min(420, innerHeight * 0.45)) / Math.max(1, count)))));
    across = Math.max(1, Math.floor(width / size));
    let height = 0;
    let first = 0;
    blocks = data.parts.map(([label, number]) => {
      const top = height + (label ? LINE : 0);
      height = top + Math.ceil(number / across) * size;
      first += number;
      return { label, number, top, first: first - number };
    });
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    return scale;
  }

  function draw() {
    if (!data || !data.names) return;
    const scale = layout();
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const side = size - GAP;
    const ink = dark() ? "#e4ebe6" : "#17211b";
    pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
    for (const block of blocks) {
      if (!block.label) continue;
      pen.fillStyle = ink;
      pen.fillText(`${block.label}: ${block.number}`, 0, block.top - 5);
    }
    for (const block of blocks) for (let i = block.first; i < block.first + block.number; i += 1) {
      const x = ((i - block.first) % across) * size;
      const y = block.top + Math.floor((i - block.first) / across) * size;
      const state = stateOf(i);
      pen.fillStyle = colour(state === "away" || data.shares[i] < 0 ? null : data.shares[i] / 100);
      pen.fillRect(x, y, side, side);
      if (state === "away") {
        pen.strokeStyle = dark() ? "#ff9d94" : "#b3261e";
        pen.beginPath(); pen.moveTo(x, y + side); pen.lineTo(x + side, y); pen.stroke();
      } else if (state !== "up") {
        pen.strokeStyle = dark() ? "#f0c468" : "#80530a";
        pen.lineWidth = Math.min(2, size / 5);
        pen.strokeRect(x + 1, y + 1, side - 2, side - 2);
        pen.lineWidth = 1;
      }
      if (i === at) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.strokeRect(x, y, side, side); pen.lineWidth = 1; }
    }
    const legend = document.getElementById("legend");
    const small = legend.getContext("2d");
    for (let x = 0; x < legend.width; x += 1) { small.fillStyle = colour(x / legend.width); small.fillRect(x, 0, 1, 12); }
    canvas.dataset.drawn = data.names.length;
  }

  function choose(i) {
    // The keyboard may be here before the nodes are: then the choice is shown with them.
    if (!data || !data.names || !data.names.length) { at = Math.max(0, i); return; }
    at = Math.max(0, Math.min(data.names.length - 1, i));
    const share = data.shares[at];
    const rack = rackOf(at) ? `, rack ${rackOf(at)}` : "";
    const told = share < 0 ? "not known" : `${share} %`;
    tip.textContent = `${data.names[at]}: ${told}, ${stateOf(at)}${rack}, ${data.running[at]} task${data.running[at] === 1 ? "" : "s"}`;
    draw();
  }

  function open() { if (at >= 0 && data && data.names && at < data.names.length) location.href = `/nodes/${encodeURIComponent(data.names[at])}`; }

  function under(event) {
    if (!data || !data.names) return -1;
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / size);
    const y = event.clientY - box.top;
    const block = blocks.findLast((one) => y >= one.top);
    if (!block || column >= across) return -1;
    const i = Math.floor((y - block.top) / size) * across + column;
    return i < block.number ? block.first + i : -1;
  }

  function stateOf(i) { return data.states[i] || "up"; }

  function rackOf(i) {
    let end = 0;
    for (const [rack, count] of data.racks) { end += count; if (i < end) return rack; }
    return "";
  }

  canvas.addEventListener("mousemove", (event) => { const i = under(event); if (i >= 0 && i !== at) choose(i); });
  canvas.addEventListener("click", (event) => { const i = under(event); if (i >= 0) { choose(i); open(); } });
  canvas.addEventListener("focus", () => { if (at < 0) choose(0); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (step) { event.preventDefault(); choose(at + step); }
    if (event.key === "Enter") open();
  });
  async function load() {
    const source = document.getElementById("map-data");
    if (!source) return;
    const number = asked += 1;
    const outline = JSON.parse(source.textContent);
    // The page is shown before the map is drawn: 10,000 cells are more than all the rest. Its place is kept free.
    if (!data) { data = outline; layout(); }
    try {
      const since = data.version ? `&since=${data.version}` : "";
      const answer = await fetch(source.dataset.from + since, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      const columns = answer.status === 204 ? null : await answer.json();
      if (number !== asked) return;
      // Nothing has changed, but perhaps the theme.
      if (!columns) { draw(); return; }
      if (columns.since) update(columns); else data = { ...columns, count: columns.names.length };
      if (at >= 0 && data.names.length) choose(at); else { tip.textContent = ""; draw(); }
    } catch (error) {
      // The banner says that the portal is away; the map stays as it was.
    }
  }

  // Takes over what has changed since the version that is here.
  function update(changed) {
    for (const name of ["shares", "running"]) for (const [i, value] of changed[name]) data[name][i] = value;
    data.states = changed.states;
    data.version = changed.version;
  }

  document.addEventListener("refreshed", load);
  addEventListener("resize", draw);
  load();
})();
