// Recent decisions, the explanation of each, and the report on what the features miss.

import { bandit, get } from "./api.js";
import { show } from "./dialog.js";
import { clock, duration, el, fill, nameOf, number, percent, reward, signed, withStd } from "./dom.js";

const WHO = { policy: "Policy", control: "Control group", baseline: "Baseline" };

export function decisionsCard(state) {
  const body = el("tbody", {});
  const which = el("select", { "aria-label": "Which decisions", id: "decision-outcome", on: { change: () => load() } },
    ...Object.entries({ any: "All", reward: "With a reward", waiting: "Waiting", expired: "Expired" })
      .map(([value, title]) => el("option", { value }, title)));
  const size = () => (matchMedia("(max-width: 700px)").matches ? 6 : 12);
  const card = el("section", { class: "card", "aria-labelledby": "decisions-title" },
    el("div", { class: "card-head" }, el("h2", { id: "decisions-title" }, "Recent decisions"), which),
    el("div", { class: "scroll" }, el("table", { class: "decisions" }, el("caption", { class: "sr" }, "Recent decisions, newest first"),
      el("thead", {}, el("tr", {}, ...["Time", "Arm", "Who decided", "Probability", "Outcome"].map((title) => el("th", { scope: "col" }, title)),
        el("th", { scope: "col" }, el("span", { class: "sr" }, "Explanation")))), body)));
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-id]");
    if (button) explain(button.dataset.id, button.dataset.arm);
  });

  async function explain(id, arm) {
    const place = show(["Why ", nameOf(arm), "?"], el("p", { class: "loading" }, "Computing what the model knew when it decided…"));
    try {
      const path = bandit(state.bandit, `/decisions/${id.split("/").map(encodeURIComponent).join("/")}/explanation`);
      fill(place, ...explanation(await get(path), id));
    } catch (refused) {
      fill(place, el("p", { class: "error" }, refused.message));
    }
  }

  async function load() {
    const { decisions } = await get(bandit(state.bandit, `/decisions?last=${size()}&outcome=${which.value}`));
    fill(body, ...(decisions.length ? decisions.map(rowOf)
      : [el("tr", {}, el("td", { colspan: 6, class: "empty" }, which.value === "any" ? "No decisions yet." : "None of the latest decisions."))]));
  }
  // As in the table of arms, rows do not move below the pointer.
  return { card, update: () => (body.contains(document.activeElement) || body.matches(":hover") ? Promise.resolve() : load()) };
}

function rowOf(made) {
  const cell = (title, ...content) => el("td", { "data-title": title }, el("div", {}, ...content));
  const explored = made.probability !== null && made.probability < made.top_probability;
  const outcome = made.outcome === "waiting" ? "waiting"
    : made.outcome === "expired" ? (made.reward === null ? "expired" : `expired: ${reward(made.reward)}`)
    : `${reward(made.reward)} after ${duration(made.delay)}`;
  return el("tr", {},
    cell("Time", el("time", {}, clock(made.time))),
    el("th", { scope: "row" }, nameOf(made.arm)),
    cell("Who decided", WHO[made.by]),
    cell("Probability", percent(made.probability), explored ? el("span", { class: "chip" }, "explored") : null, el("small", {}, ` of ${made.n_offered} arms`)),
    cell("Outcome", outcome),
    el("td", { class: "action" }, el("button", { type: "button", class: "quiet", "data-id": made.id, "data-arm": made.arm },
      "Explain", el("span", { class: "sr" }, ` decision ${made.id}`))));
}

function explanation(found, id) {
  const parts = [...found.contributions.slice(0, 10).map((each) => [each.name, each.contribution, each.std])];
  const rest = found.contributions.slice(10);
  if (rest.length) parts.push([`${rest.length} more features`, rest.reduce((sum, each) => sum + each.contribution, 0), null]);
  parts.push(["the arm's own effect", found.effect, found.effect_std]);
  const most = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-12);
  const lines = [];
  if (found.propensity !== null) lines.push(`It was chosen with probability ${percent(found.propensity)}.`);
  if (found.score !== null) lines.push(`It was ranked by ${number(found.score)}: the mean and ${signed(found.score - found.mean)} for its uncertainty.`);
  if (found.explored) lines.push("It was drawn at random to explore, not chosen by its score.");
  return [
    el("p", {}, "The model expected ", el("strong", {}, withStd(found.mean, found.std).replace("+", "")),
      found.scale === "logit" ? " (logit)" : "", ". This is the sum of:"),
    el("ul", { class: "bars signed" }, ...parts.map(([name, value, std]) => el("li", {},
      el("span", { class: "bar-title" }, nameOf(name, 48)),
      el("span", { class: "bar-value" }, std === null ? signed(value) : withStd(value, std)),
      el("span", { class: "bar-track", "aria-hidden": "true" }, el("span", {
        class: value < 0 ? "bar-fill minus" : "bar-fill",
        style: { width: `${(50 * Math.abs(value)) / most}%`, left: value < 0 ? `${50 - (50 * Math.abs(value)) / most}%` : "50%" } }))))),
    ...lines.map((line) => el("p", {}, line)),
    el("p", { class: "hint" }, "Decision ", el("code", {}, nameOf(id)), `, as of event ${found.version}.`),
  ];
}

export function diagnosisCard(state) {
  const text = el("div", { class: "report" }, el("p", { class: "loading" }, "Loading…"));
  const again = el("button", { type: "button", class: "quiet", on: { click: () => load() } }, "Test again");
  const card = el("section", { class: "card", "aria-labelledby": "diagnosis-title" },
    el("div", { class: "card-head" }, el("h2", { id: "diagnosis-title" }, "What the features miss"), again), text);
  let loaded = 0;

  async function load() {
    loaded = Date.now();
    again.disabled = true;
    try {
      const report = await get(bandit(state.bandit, "/diagnosis"));
      const [words, ...numbers] = report.text.split("\n\n");
      fill(text, ...words.split("\n").map((line) => el("p", {}, line)),
        el("details", {}, el("summary", {}, "All numbers"), el("pre", { tabindex: 0 }, numbers.join("\n\n"))));
    } catch (refused) {
      fill(text, el("p", { class: "hint" }, refused.status === 422 || refused.status === 400 ? `No report: ${refused.message}.` : refused.message));
    }
    again.disabled = false;
  }
  // The test may take seconds, so it is repeated rarely.
  return {
    card,
    update(summary) {
      if (summary.bandit.n_arms < 2) fill(text, el("p", { class: "hint" }, "No report yet: it needs rewards of at least two arms."));
      else if (Date.now() - loaded > 60000 && !text.querySelector("details[open]")) load();
    },
  };
}
