// Charts. Colors are those of Okabe and Ito; lines also differ in dash, areas in pattern, and all have names.

import { duration, forPlotly, number, percent, whole } from "./dom.js";

delete document.getElementById; // see before_plotly.js

const dark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = () => dark.matches;
export const onTheme = (f) => dark.addEventListener("change", f);

const GROUPS = {
  policy: { title: "Policy", color: ["#0072B2", "#56B4E9"], dash: "solid", symbol: "circle", pattern: "" },
  control: { title: "Control group", color: ["#D55E00", "#E69F00"], dash: "dash", symbol: "diamond", pattern: "/" },
  baseline: { title: "Baseline", color: ["#009E73", "#009E73"], dash: "dot", symbol: "square", pattern: "x" },
};
const ARMS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
const PATTERNS = ["", "/", "", "x", "", "\\", "."];

const colorOf = (group) => GROUPS[group].color[isDark() ? 1 : 0];
const pattern = (shape) => ({ shape, size: 7, solidity: 0.22, fillmode: "overlay", fgcolor: isDark() ? "#161c23" : "#ffffff", fgopacity: 0.75 });
const faint = () => (isDark() ? "#7d8794" : "#8a93a0");

function layout(more = {}) {
  const text = isDark() ? "#aeb7c2" : "#566070";
  const line = isDark() ? "#2b333d" : "#e6e9ee";
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line, automargin: true, fixedrange: true };
  const { xaxis, yaxis, ...rest } = more;
  return {
    autosize: true,
    margin: { l: 44, r: 8, t: 8, b: 28 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: text },
    hovermode: "x unified",
    hoverlabel: {
      bgcolor: isDark() ? "#1d242d" : "#ffffff",
      bordercolor: line,
      font: { color: isDark() ? "#e6e9ee" : "#1b2430", size: 12 },
      namelength: -1,
    },
    showlegend: false,
    dragmode: false,
    xaxis: { ...axis, showgrid: false, ...xaxis },
    yaxis: { ...axis, rangemode: "tozero", ...yaxis },
    ...rest,
  };
}

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false };

async function draw(place, traces, made, label, emptyText = null) {
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", label);
  if (!window.Plotly) {
    place.textContent = "Charts need the package plotly: pip install 'rolin[service]'";
    return;
  }
  if (!place.data) place.replaceChildren();
  if (emptyText !== null) {
    made.xaxis.visible = made.yaxis.visible = false;
    made.annotations = [{ text: emptyText, xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, font: { size: 13 } }];
  }
  await window.Plotly.react(place, traces, made, CONFIG);
  // The label says it; the texts inside would be read one by one.
  for (const svg of document.querySelectorAll(".chart svg, #js-plotly-tester")) svg.setAttribute("aria-hidden", "true");
}

const noneIn = (over) => (used(over).length ? null : "No decisions in this range of time");
const dates = (over) => over.times.map((time) => new Date(1000 * time));
const lastOf = (values) => [...values].reverse().find((value) => value !== null && value !== undefined) ?? null;
const used = (over) => Object.keys(GROUPS).filter((by) => over.decisions[by].some((n) => n > 0));

export const legendOf = (over) => used(over).map((by) => ({ ...GROUPS[by], color: colorOf(by) }));

function times(over, changes) {
  // Vertical lines where settings changed.
  const shapes = changes
    .filter((change) => change.time >= over.times[0])
    .map((change) => ({
      type: "line", xref: "x", yref: "paper", x0: new Date(1000 * change.time), x1: new Date(1000 * change.time),
      y0: 0, y1: 1, line: { color: faint(), width: 1, dash: "dot" },
    }));
  return {
    shapes,
    xaxis: {
      type: "date", nticks: innerWidth < 700 ? 4 : 6, tickangle: 0,
      range: [new Date(1000 * over.times[0] - 500 * over.width), new Date(1000 * (over.times.at(-1) + over.width / 2))],
    },
  };
}

export function drawDecisions(place, over, changes) {
  const x = dates(over);
  const traces = used(over).map((by) => ({
    type: "bar", name: GROUPS[by].title, x, y: over.decisions[by],
    marker: { color: colorOf(by), pattern: pattern(GROUPS[by].pattern) },
    hovertemplate: "%{y:,}",
  }));
  const total = Object.values(over.decisions).flat().reduce((a, b) => a + b, 0);
  return draw(
    place, traces, layout({ barmode: "stack", bargap: over.times.length > 60 ? 0 : 0.15, ...times(over, changes) }),
    `Decisions per ${duration(over.width)}: ${whole(total)} in this range.`, noneIn(over),
  );
}

export function drawRewards(place, over, changes) {
  const x = dates(over);
  const traces = used(over).map((by) => ({
    type: "scatter", mode: "lines+markers", name: GROUPS[by].title, x, y: smooth(over, by), connectgaps: false,
    line: { color: colorOf(by), width: 2, dash: GROUPS[by].dash },
    marker: { symbol: GROUPS[by].symbol, size: 5 },
    hovertemplate: "%{y:.3f}",
  }));
  const spoken = used(over).map((by) => `${GROUPS[by].title} ${number(lastOf(smooth(over, by)))}`);
  return draw(
    place, traces, layout({ yaxis: { rangemode: "normal", tickformat: ".2~f" }, ...times(over, changes) }),
    `Mean reward, latest: ${spoken.join(", ")}.`, noneIn(over),
  );
}

// Intervals with few rewards say little, so each point is the mean of at least 20 rewards, or of all before.
function smooth(over, by) {
  const n = over.rewards[by];
  const sums = over.mean_reward[by].map((mean, i) => (mean === null ? 0 : mean * n[i]));
  return n.map((here, i) => {
    if (!here) return null;
    let rewards = 0;
    let sum = 0;
    for (let j = i; j >= 0 && rewards < 20; j--) {
      rewards += n[j];
      sum += sums[j];
    }
    return sum / rewards;
  });
}

export function drawTraffic(place, over, changes) {
  const x = dates(over);
  const traces = over.traffic.map((each, i) => ({
    type: "bar", name: each.arm === null ? "other arms" : forPlotly(each.arm),
    x, y: each.decisions.map((n, t) => share(over, n, t)), customdata: each.decisions,
    marker: {
      color: each.arm === null ? faint() : ARMS[i],
      pattern: pattern(each.arm === null ? "" : PATTERNS[i]),
    },
    hovertemplate: "%{y:.0%} (%{customdata:,})",
  }));
  const spoken = over.traffic.slice(0, 3).map((each) => {
    const n = each.decisions.reduce((a, b) => a + b, 0);
    const all = Object.values(over.decisions).flat().reduce((a, b) => a + b, 0);
    return `${each.arm ?? "other arms"} ${percent(all ? n / all : null)}`;
  });
  return draw(
    place, traces,
    layout({
      barmode: "stack", bargap: over.times.length > 60 ? 0 : 0.06,
      yaxis: { tickformat: ".0%", range: [0, 1] }, ...times(over, changes),
    }),
    `Share of decisions by arm: ${spoken.join(", ")}.`, noneIn(over),
  );
}

const share = (over, n, t) => {
  const all = Object.values(over.decisions).reduce((sum, each) => sum + each[t], 0);
  return all ? n / all : null;
};
export const trafficLegend = (over) => over.traffic.map((each, i) => ({
  title: each.arm ?? "other arms", isArm: each.arm !== null, color: each.arm === null ? faint() : ARMS[i],
  pattern: each.arm === null ? "" : PATTERNS[i],
}));

export function drawExplored(place, over, changes) {
  const traces = [{
    type: "scatter", mode: "lines+markers", name: "Explored", marker: { size: 4 }, x: dates(over), y: over.explored, fill: "tozeroy",
    line: { color: colorOf("policy"), width: 2 }, fillcolor: isDark() ? "rgba(86,180,233,.18)" : "rgba(0,114,178,.12)",
    hovertemplate: "%{y:.1%}",
  }];
  return draw(
    place, traces, layout({ yaxis: { tickformat: ".0%" }, ...times(over, changes) }),
    `Share of decisions that explored, latest: ${percent(lastOf(over.explored))}.`, noneIn(over),
  );
}

export function drawDelays(place, delays) {
  const names = ["< 1 s", "< 10 s", "< 1 min", "< 10 min", "< 1 h", "< 6 h", "< 1 day", "< 7 days", "longer"];
  const total = delays.reduce((sum, each) => sum + each.rewards, 0);
  const traces = [{
    type: "bar", x: names, y: delays.map((each) => (total ? each.rewards / total : 0)),
    customdata: delays.map((each) => each.rewards), marker: { color: colorOf("policy") },
    hovertemplate: "%{customdata:,} rewards (%{y:.1%})<extra></extra>",
  }];
  return draw(
    place, traces, layout({ hovermode: "closest", bargap: 0.25, yaxis: { tickformat: ".0%" }, xaxis: { type: "category", tickangle: -35 } }),
    `Delay of rewards: ${names.map((name, i) => `${name}: ${delays[i].rewards}`).join(", ")}.`,
    total ? null : "No rewards yet",
  );
}

export function drawCalibration(place, calibration) {
  const bins = calibration.bins.filter((bin) => bin.offers > 0);
  const x = bins.map((bin) => bin.expected / bin.offers);
  const y = bins.map((bin) => bin.chosen / bin.offers);
  const error = bins.map((bin, i) => 1.96 * Math.sqrt(Math.max(x[i] * (1 - x[i]), 0) / bin.offers));
  const traces = [
    { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { color: faint(), dash: "dot", width: 1 }, hoverinfo: "skip" },
    {
      type: "scatter", mode: "markers", x, y, marker: { color: colorOf("policy"), size: 8 },
      error_y: { type: "data", array: error, color: faint(), thickness: 1.2, width: 3 },
      customdata: bins.map((bin) => [bin.offers, bin.chosen, bin.expected]),
      hovertemplate: "probability %{x:.3f}, chosen %{y:.3f}<br>%{customdata[1]:,} of %{customdata[0]:,}, expected %{customdata[2]:,.1f}<extra></extra>",
    },
  ];
  return draw(
    place, traces,
    layout({
      hovermode: "closest", margin: { l: 44, r: 8, t: 8, b: 40 },
      xaxis: { range: [-0.02, 1.02], tickformat: ".0%", showgrid: true, title: { text: "recorded probability", standoff: 6 } },
      yaxis: { range: [-0.02, 1.05], tickformat: ".0%" },
    }),
    `Recorded probabilities against choices: ${bins.length} groups, ${calibration.decisions} decisions.`,
    bins.length ? null : "No recorded probabilities yet",
  );
}
