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

  // Colours depend on the mode, so they are filled in when a figure is drawn.
  function dressed(figure) {
    const data = figure.data.map((each) => {
      const own = policyColor(each.policy);
      return { ...each, mode: "lines", line: { ...each.line, color: own }, fillcolor: each.fill ? faded(own) : undefined };
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
    return { data, layout };
  }

  function draw(id, figure) {
    const { data, layout } = dressed(figure);
    Plotly.react(id, data, layout, { displayModeBar: false, responsive: true });
  }

  const select = document.getElementById("dimension");
  const names = Object.keys(figures.utilisation);
  for (const name of names) select.add(new Option(name === "mean" ? "all dimensions (mean)" : name, name));
  document.getElementById("pick").hidden = names.length < 2;
  select.addEventListener("change", () => draw("utilisation", figures.utilisation[select.value]));

  function drawAll() {
    if (names.length) draw("utilisation", figures.utilisation[select.value]);
    for (const id of ["waits", "slowdowns", "groups"]) draw(id, figures[id]);
  }
  document.getElementById("mode").addEventListener("click", () => {
    setMode(root.dataset.mode === "dark" ? "light" : "dark");
    drawAll();
  });
  dark.addEventListener("change", (event) => { setMode(event.matches ? "dark" : "light"); drawAll(); });
  drawAll();
})();
