"use strict";
// Draws each <figure class="chart"> from the data in its attribute. Without this script its table says the same.
const TICKS = { share: v => `${Math.round(v * 100)}%`, usd: v => `$${+v.toPrecision(3)}`, seconds: v => `${+v.toPrecision(3)} s`, count: v => `${v}` };
const WIDTH = 300;
const HEIGHT = 180;
// Above the highest value, for the names of marks.
const ROOM = 1.15;
const charts = [];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function time(at, step) {
  const text = new Date(at * 1000).toLocaleTimeString("sv-SE", { timeStyle: "short" });
  const day = new Date(at * 1000).toLocaleDateString("en", { day: "numeric", month: "short" });
  return step < 86400 && text !== "00:00" ? text : day;
}

function reading(chart, place) {
  const moment = new Date(chart.at[place] * 1000).toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "short" });
  const said = chart.lines.map(line => {
    if (line.values[place] === null) return `${line.label}: nothing known`;
    const value = `${line.label}: ${TICKS[chart.unit](line.values[place])}`;
    const low = line.low[place] ?? null;
    return low === null ? value : `${value} (${TICKS[chart.unit](low)} to ${TICKS[chart.unit](line.high[place])})`;
  });
  return `${moment} · ${said.join(" · ")}`;
}

// Where something began: a dashed line with its name.
function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--muted");
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  let free = -Infinity;
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.at, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const label = mark.label.length > 14 ? `${mark.label.slice(0, 13)}…` : mark.label;
    const [width, gap] = [ctx.measureText(label).width, 4 * devicePixelRatio];
    const fits = x + gap + width < bbox.left + bbox.width;
    const start = fits ? x + gap : x - gap - width;
    // A name that would stand on another one is left out: the list of versions has it.
    if (start < free) continue;
    ctx.fillText(label, start, bbox.top);
    free = start + width + gap;
  }
  ctx.restore();
}

function series(chart) {
  const colours = ["--accent", "--warn"];
  const drawn = [{}];
  const data = [chart.at];
  const bands = [];
  chart.lines.forEach((line, number) => {
    const stroke = () => colour(colours[number % colours.length]);
    if (line.high.length) {
      const edge = { stroke: () => "transparent", points: { show: false }, spanGaps: false };
      bands.push({ series: [drawn.length, drawn.length + 1], fill: () => colour("--band") });
      drawn.push(edge, edge);
      data.push(line.high, line.low);
    }
    const bars = chart.bars ? { paths: uPlot.paths.bars({ size: [0.7, 28] }), fill: stroke } : {};
    const known = line.values.filter(value => value !== null).length;
    drawn.push({ stroke, width: chart.bars ? 0 : 2, spanGaps: true, points: { show: !chart.bars && known < 40, size: 5, fill: stroke }, ...bars });
    data.push(line.values);
  });
  return { drawn, data, bands };
}

function draw(figure) {
  const chart = JSON.parse(figure.dataset.chart);
  const step = chart.at[1] - chart.at[0];
  const { drawn, data, bands } = series(chart);
  const newest = chart.at.findLastIndex((_, place) => chart.lines.some(line => line.values[place] !== null));
  const box = document.createElement("div");
  const output = figure.querySelector("output");
  const axis = { stroke: () => colour("--muted"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const edge = chart.bars ? step / 2 : 0;
  const plot = new uPlot({
    width: WIDTH,
    height: HEIGHT,
    series: drawn,
    bands,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: !chart.bars } },
    scales: {
      x: { time: true, range: () => [chart.at[0] - edge, chart.at.at(-1) + edge] },
      y: { range: (_, low, high) => [0, (chart.unit === "share" ? 1 : high || 1) * ROOM] },
    },
    axes: [
      { ...axis, size: 28, space: 60, values: (_, splits) => splits.map(at => time(at, step)) },
      { ...axis, size: 64, space: 36, values: (_, splits) => splits.map(each => chart.unit === "share" && each > 1 ? "" : TICKS[chart.unit](each)) },
    ],
    hooks: {
      draw: [plot => drawMarks(plot, chart.marks)],
      setCursor: [plot => { output.textContent = reading(chart, plot.cursor.idx ?? newest); }],
    },
  }, data, box);

  box.className = "plot";
  box.tabIndex = 0;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `${figure.dataset.title}. Left and right read its points.`);
  const focus = place => plot.setCursor({ left: plot.valToPos(chart.at[place], "x"), top: plot.bbox.height / devicePixelRatio / 2 });
  box.addEventListener("keydown", event => {
    const last = chart.at.length - 1;
    const now = plot.cursor.idx ?? last + 1;
    const place = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (place === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    focus(Math.max(0, Math.min(last, place)));
  });
  figure.querySelector("figcaption").after(box);
  figure.querySelector("details").open = false;
  output.textContent = reading(chart, newest);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
  charts.push(plot);
}

function drawAll() {
  for (const figure of document.querySelectorAll("figure.chart:not(:has(> .plot))")) draw(figure);
}

drawAll();
addEventListener("swapped", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(plot => plot.redraw()));
