"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const setMode = (mode) => { root.dataset.mode = mode; };
  setMode(dark.matches ? "dark" : "light");

  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const policyColor = (i) => (i < 0 ? color("--quota") : color("--p" + (i % 8)));
  const faded = (hex) => hex + "2e";
  const font = () => getComputedStyle(document.body).fontFamily;

  // Small panels stand in fewer columns where the page is narrow.
  function arranged(figure, width) {
    const count = figure.panels || 0;
    if (!count) return figure;
    const columns = Math.min(count, width < 520 ? 1 : width < 820 ? 2 : 4);
    const rows = Math.ceil(count / columns);
    const height = rows === 1 && columns < 3 ? 360 : 110 + 165 * rows;
    const gapX = columns > 1 ? Math.min(0.12, 56 / width) : 0;
    const gapY = 52 / height;
    const wide = (1 - gapX * (columns - 1)) / columns;
    const tall = (1 - gapY * (rows - 1)) / rows;
    const layout = { ...figure.layout, height, annotations: figure.layout.annotations.map((each) => ({ ...each })) };
    for (let panel = 0; panel < count; panel += 1) {
      const name = panel ? String(panel + 1) : "";
      const left = (panel % columns) * (wide + gapX);
      const top = 1 - Math.floor(panel / columns) * (tall + gapY);
      const lowest = panel + columns >= count;
      const title = { text: lowest && columns <= 2 ? figure.axis : "" };
      layout["xaxis" + name] = {
        ...layout["xaxis" + name], domain: [left, Math.min(1, left + wide)], title, showticklabels: lowest,
      };
      layout["yaxis" + name] = { ...layout["yaxis" + name], domain: [Math.max(0, top - tall), top] };
      Object.assign(layout.annotations[panel], { x: left, y: top });
    }
    return { ...figure, layout };
  }

  // The legend stands above the plot, in as many lines as it needs, and the plot begins below it.
  function spaced(layout, data, width) {
    const names = layout.showlegend ? data.filter((each) => each.showlegend !== false).map((each) => each.name) : [];
    const needed = names.reduce((sum, name) => sum + 56 + 7.5 * name.length, 0);
    const lines = names.length ? Math.max(1, Math.ceil(needed / Math.max(1, width - 70))) : 0;
    const titles = layout.annotations.length && names.length ? 26 : 0;
    const margin = { ...layout.margin, t: 12 + 20 * lines + titles };
    margin.t = Math.max(26, margin.t);
    const height = layout.height + Math.max(0, margin.t - layout.margin.t);
    const plot = height - margin.t - margin.b;
    return { ...layout, height, margin, legend: { ...layout.legend, y: 1 + (titles + 4) / plot } };
  }

  // Colours depend on the mode, so they are filled in when a figure is drawn.
  function dressed(raw, width) {
    const figure = arranged(raw, width);
    const data = figure.data.map((each) => {
      const own = policyColor(each.policy);
      if (each.type === "bar") return { ...each, marker: { color: own }, textfont: { color: color("--soft"), size: 11 } };
      const mode = each.markers ? "lines+markers" : "lines";
      return { ...each, mode, line: { ...each.line, color: own }, fillcolor: each.fill ? faded(own) : undefined };
    });
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: font(), size: 12.5, color: color("--soft") },
      margin: { l: 52, r: 10, t: 26, b: 46 }, hovermode: "closest",
      hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--text"), family: font() } },
      ...figure.layout,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: color("--text"), size: 13 }, ...figure.layout.legend },
    };
    for (const key of Object.keys(layout)) {
      if (!/^[xy]axis/.test(key)) continue;
      const axis = { gridcolor: color("--grid"), linecolor: color("--line"), zeroline: false, fixedrange: false, ...layout[key] };
      axis.title = { standoff: 10, ...axis.title, font: { size: 12.5, color: color("--soft") } };
      layout[key] = axis;
    }
    layout.annotations = (figure.layout.annotations || []).map((each) => ({
      ...each, font: { size: 13, color: each.policy === undefined ? color("--text") : policyColor(each.policy) },
    }));
    return { data, layout: spaced(layout, data, width) };
  }

  function draw(id, figure) {
    const { data, layout } = dressed(figure, document.getElementById(id).clientWidth);
    Plotly.react(id, data, layout, { displayModeBar: false, responsive: true });
  }

  const select = document.getElementById("dimension");
  const names = Object.keys(figures.utilisation);
  for (const name of names) select.add(new Option(name === "mean" ? "all dimensions (mean)" : name, name));
  document.getElementById("pick").hidden = names.length < 2;
  select.addEventListener("change", () => draw("utilisation", figures.utilisation[select.value]));

  function drawAll() {
    if (names.length) draw("utilisation", figures.utilisation[select.value]);
    for (const id of ["waits", "slowdowns", "tightness", "misses", "fragments", "groups"]) if (figures[id]) draw(id, figures[id]);
    for (const [id, figure] of Object.entries(figures.more)) draw(id, figure);
  }
  document.getElementById("mode").addEventListener("click", () => {
    setMode(root.dataset.mode === "dark" ? "light" : "dark");
    drawAll();
  });
  dark.addEventListener("change", (event) => { setMode(event.matches ? "dark" : "light"); drawAll(); });
  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(drawAll, 150);
  });
  drawAll();
})();
