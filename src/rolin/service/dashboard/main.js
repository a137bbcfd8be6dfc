// The page: ask for a key, build the cards of a bandit, and keep them up to date.

import { actionsCard, MODES } from "./actions.js";
import { bandit, call, get, key } from "./api.js";
import { armsCard } from "./arms.js";
import { onTheme } from "./charts.js";
import { decisionsCard, diagnosisCard } from "./decisions.js";
import { el, fill, moment, nameOf, say, whole } from "./dom.js";
import { calibrationChart, liftCard, promises, rewardCharts, tiles, timeCharts } from "./overview.js";

const EVERY = 3000; // milliseconds between two looks
const RANGES = { "15m": "15 min", "1h": "1 h", "24h": "24 h", "30d": "30 days", all: "All" };
const at = (id) => document.getElementById(id);
const state = { bandit: null, range: null, live: true, isAdmin: false, summary: null, lifts: {} };
let cards = null;
let timer = null;
let run = 0; // of the bandit that is shown; answers for another one are dropped

// -- the key ---------------------------------------------------------------------------------

function askForKey(message = "") {
  stop();
  key.forget();
  at("dashboard").replaceChildren();
  for (const id of ["dashboard", "bar-controls", "sign-out"]) at(id).hidden = true;
  at("sign-in").hidden = false;
  at("key-error").textContent = message;
  at("notice").hidden = true;
  document.title = "rolin";
  at("key").value = "";
  at("key").focus();
}

at("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = at("key").value.trim();
  if (!/^[\x21-\x7e]+$/.test(given)) {
    at("key-error").textContent = "A key has letters, digits and signs only.";
    return;
  }
  try {
    await call("GET", "/v1/key", undefined, given);
  } catch (refused) {
    at("key-error").textContent = refused.status === 401 ? "This key is not valid." : refused.message;
    return;
  }
  key.set(given);
  start();
});
at("sign-out").addEventListener("click", () => askForKey());

async function start() {
  at("sign-in").hidden = true;
  try {
    const me = await get("/v1/key");
    state.isAdmin = me.scopes.includes("admin");
    fill(at("sign-out"), `Sign out (${me.name})`);
    const bandits = await listBandits();
    for (const id of ["dashboard", "bar-controls", "sign-out"]) at(id).hidden = false;
    const wanted = decodeURIComponent(location.hash.slice(2));
    // The first visit shows the demo, if there is one.
    const first = bandits.includes(wanted) ? wanted : bandits.includes("demo") ? "demo" : bandits[0];
    if (first === undefined) fill(at("dashboard"), el("section", { class: "card" }, el("h1", {}, "No bandits yet"), el("p", {}, "Create one with POST /v1/bandits: see ", el("a", { href: "/docs" }, "the API"), ".")));
    else open(first);
  } catch (refused) {
    if (refused.status === 401) askForKey("This key is not valid any more.");
    else if (refused.status === 403) askForKey(`${refused.message}.`);
    else {
      notice(refused.message);
      timer = setTimeout(start, EVERY);
    }
  }
}

async function listBandits() {
  const { bandits } = await get("/v1/bandits");
  fill(at("bandit"), ...bandits.map((name) => el("option", { value: name }, name)));
  if (bandits.includes(state.bandit)) at("bandit").value = state.bandit;
  return bandits;
}

// -- one bandit ------------------------------------------------------------------------------

function open(name) {
  stop();
  run += 1;
  Object.assign(state, { bandit: name, range: null, summary: null, lifts: {} });
  at("bandit").value = name;
  if (location.hash !== `#/${name}`) history.replaceState(null, "", `#/${encodeURIComponent(name)}`);
  document.title = `${name} · rolin`;
  build();
  look();
}

function build() {
  const head = { mode: el("span", { class: "mode" }), policy: el("span", { class: "hint" }) };
  const reading = el("p", { class: "reading", role: "status", hidden: true });
  const empty = el("section", { class: "card empty-state", hidden: true });
  const numbers = tiles();
  const parts = {
    time: timeCharts(), lift: liftCard(), promises: promises(), calibration: calibrationChart(), rewards: rewardCharts(),
    actions: actionsCard(state, look), arms: armsCard(state), decisions: decisionsCard(state), diagnosis: diagnosisCard(state),
  };
  fill(at("dashboard"));
  at("dashboard").replaceChildren(
    el("div", { class: "title" }, el("h1", {}, nameOf(state.bandit)), head.mode, head.policy), reading, empty, numbers.list,
    el("div", { class: "grid" },
      ...parts.time.cards, parts.lift.card, parts.promises.card),
    el("div", { class: "grid" }, parts.actions.card, parts.diagnosis.card),
    parts.arms.card,
    el("div", { class: "grid thirds" }, ...parts.rewards.cards, parts.calibration.card),
    parts.decisions.card,
  );
  cards = { head, reading, empty, numbers, ...parts };
}

async function look() {
  clearTimeout(timer);
  const mine = run;
  try {
    const summary = await get(bandit(state.bandit, `/summary?range=${state.range ?? "15m"}`));
    if (mine !== run) return;
    if (state.range === null) {
      state.range = fitting(summary);
      drawRanges();
      if (state.range !== "15m") {
        look();
        return;
      }
    }
    const [control, share] = await Promise.all([
      get(bandit(state.bandit, "/lift?by=control")), get(bandit(state.bandit, "/lift?by=share"))]);
    if (mine !== run) return;
    state.summary = summary;
    state.lifts = { control, share };
    await draw();
    await Promise.all([cards.arms.update(), cards.decisions.update()]);
    cards.diagnosis.update(summary);
    if (document.activeElement !== at("bandit")) await listBandits();
    if (mine !== run) return;
    at("dashboard").dataset.seen = String(Number(at("dashboard").dataset.seen ?? 0) + 1);
    notice(null);
  } catch (refused) {
    if (mine !== run) return;
    if (refused.status === 401) {
      askForKey("This key is not valid any more.");
      return;
    }
    if (refused.status === 404) {
      start(); // the bandit was deleted
      return;
    }
    if (refused.status === undefined) throw refused; // an error of ours
    notice(refused.message);
  }
  again();
}

// The range that the data so far fill best.
function fitting(summary) {
  const age = summary.reading.since === null ? 0 : summary.time - summary.reading.since;
  return age < 840 ? "15m" : age < 3500 ? "1h" : age < 85000 ? "24h" : age < 2500000 ? "30d" : "all";
}

async function draw() {
  const { summary, lifts } = state;
  const { mode } = summary.bandit.settings;
  const behind = summary.reading.last - summary.reading.read;
  cards.head.mode.dataset.mode = mode;
  fill(cards.head.mode, el("span", { "aria-hidden": "true" }, MODES[mode].mark), ` ${MODES[mode].title}`);
  fill(cards.head.policy, `${summary.bandit.config.policy ?? "RoLinTS"}${summary.bandit.shadow ? `, shadow ${summary.bandit.shadow}` : ""}`,
    summary.reading.since === null ? "" : ` · since ${moment(summary.reading.since)}`);
  cards.reading.hidden = behind < 2000;
  fill(cards.reading, `Reading the journal: ${whole(summary.reading.read)} of ${whole(summary.reading.last)} events. Numbers are not complete yet.`);
  const isEmpty = summary.reading.since === null && behind === 0;
  cards.empty.hidden = !isEmpty;
  if (isEmpty) fill(cards.empty, ...howToBegin());
  cards.numbers.update(summary, lifts.control.gain === null && lifts.share.gain !== null ? lifts.share : lifts.control);
  cards.lift.update(lifts);
  cards.promises.update(summary);
  cards.actions.update(summary);
  await cards.time.update(summary);
  await cards.calibration.update(summary);
  await cards.rewards.update(summary);
}

function howToBegin() {
  const url = `${location.origin}/v1/bandits/${state.bandit}`;
  return [
    el("h2", {}, "No decisions yet"),
    el("p", {}, "Ask for a decision, and report its reward; this page follows. KEY is a key with the scopes decide and reward."),
    el("pre", { tabindex: 0 }, el("code", {}, `curl ${url}/decisions -H "Authorization: Bearer $KEY" \\\n  -d '{"id": "visit-1", "arms": ["red", "blue"]}'\ncurl ${url}/decisions/visit-1/reward -H "Authorization: Bearer $KEY" -d '{"value": 1}'`)),
    el("p", { class: "hint" }, "To see simulated visitors, start the service with ", el("code", {}, "rolin serve --demo"), "."),
  ];
}

// -- staying up to date ----------------------------------------------------------------------

function stop() {
  clearTimeout(timer);
  timer = null;
}

function again() {
  stop();
  if (state.live && !document.hidden && key.get() !== null) timer = setTimeout(look, EVERY);
}

function drawLive() {
  at("live").setAttribute("aria-pressed", String(state.live));
  fill(at("live"), el("span", { "aria-hidden": "true", class: "mark" }, state.live ? "●" : "❚❚"), state.live ? " Live" : " Paused");
}

at("live").addEventListener("click", () => {
  state.live = !state.live;
  drawLive();
  say(state.live ? "Live" : "Paused");
  if (state.live) look();
  else stop();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop();
  else if (state.bandit !== null && state.live && key.get() !== null) look();
});
onTheme(() => state.summary && draw());

function drawRanges() {
  fill(at("ranges"), ...Object.entries(RANGES).map(([range, title]) =>
    el("button", { type: "button", "data-range": range, "aria-pressed": String(state.range === range) }, title)));
}
at("ranges").addEventListener("click", (event) => {
  const button = event.target.closest("button[data-range]");
  if (!button) return;
  state.range = button.dataset.range;
  for (const each of at("ranges").children) each.setAttribute("aria-pressed", String(each === button));
  look();
});
at("bandit").addEventListener("change", () => open(at("bandit").value));
window.addEventListener("hashchange", () => {
  const wanted = decodeURIComponent(location.hash.slice(2));
  const known = [...at("bandit").options].some((option) => option.value === wanted);
  if (key.get() !== null && known && wanted !== state.bandit) open(wanted);
});

function notice(text) {
  at("notice").hidden = text === null;
  fill(at("notice"), text === null ? "" : `${text} Trying again every few seconds; what you see may be old.`);
}

drawLive();
drawRanges();
if (key.get() === null) askForKey();
else start();
