// Small helpers: elements are made from texts only, so that no name is ever taken for HTML.

export function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "on") for (const [event, f] of Object.entries(value)) made.addEventListener(event, f);
    else if (name === "style") for (const [key, v] of Object.entries(value)) made.style.setProperty(key, v);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// A name that others have chosen: isolated, so that right-to-left names do not turn the text around it.
export function nameOf(text, most = 80) {
  return el("bdi", { class: "name", title: text.length > most ? shorten(text, 500) : null }, shorten(text, most));
}

export function shorten(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

// Plotly reads a part of HTML in its texts, so names are escaped there.
export function forPlotly(text, most = 28) {
  const shown = shorten(text, most).replace(/[\u0000-\u001f]/g, " ");
  const escaped = shown.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `\u2068${escaped}\u2069`;
}

export const whole = (x) => (x === null || x === undefined ? "–" : Math.round(x).toLocaleString("en-US"));

export function short(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  if (size >= 1e6) return `${(x / 1e6).toFixed(size >= 1e7 ? 0 : 1)}M`;
  if (size >= 1e4) return `${(x / 1e3).toFixed(size >= 1e5 ? 0 : 1)}k`;
  return whole(x);
}

export function number(x, digits = 3) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  if (x !== 0 && (Math.abs(x) >= 1e6 || Math.abs(x) < 1e-4)) return x.toExponential(digits - 1).replace("-", "−");
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.max(Math.abs(x), 1e-1))));
  return x.toFixed(Math.min(decimals, 6)).replace("-", "−");
}

// A reward: whole numbers stay as they are.
export const reward = (x) => (Number.isInteger(x) ? whole(x) : number(x));

export const signed = (x, digits = 3) => (x > 0 ? `+${number(x, digits)}` : number(x, digits));

// Numbers of a column that have as many decimals as its range is worth.
export function alike(range) {
  const decimals = Math.min(Math.max(3 - Math.ceil(Math.log10(Math.max(range, 1e-9))), 0), 9);
  return (x) => x.toFixed(decimals).replace("-", "−");
}

// A number with as many decimals as its standard deviation is worth.
export function withStd(x, std) {
  const decimals = Math.min(Math.max(1 - Math.floor(Math.log10(Math.max(std, 1e-9))), 0), 9);
  const shown = x.toFixed(decimals).replace("-", "−");
  return `${x > 0 ? "+" : ""}${shown} ± ${std.toFixed(decimals)}`;
}

export function percent(x) {
  if (x === null || x === undefined) return "–";
  return `${(100 * x).toFixed(x !== 0 && Math.abs(x) < 0.1 ? 1 : 0)}\u00a0%`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

export const clock = (time) => new Date(1000 * time).toLocaleTimeString([], { hourCycle: "h23" });
export const moment = (time) =>
  new Date(1000 * time).toLocaleString([], { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });

// Replace the content of an element only if it differs, so that a selection or a focus survives.
export function fill(place, ...children) {
  const fresh = el("div", {}, ...children);
  if (sameNodes(place, fresh)) return;
  place.replaceChildren(...fresh.childNodes);
}

function sameNodes(a, b) {
  if (a.childNodes.length !== b.childNodes.length) return false;
  return [...a.childNodes].every((node, i) => node.isEqualNode(b.childNodes[i]));
}

let lastSaid = "";
export function say(text) {
  // Screen readers read what changes here.
  if (text !== lastSaid) document.getElementById("said").textContent = lastSaid = text;
}
