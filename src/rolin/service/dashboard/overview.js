// Cards of numbers and charts that follow from the summary and the lift.

import * as charts from "./charts.js";
import { el, fill, moment, nameOf, number, percent, short, signed, whole } from "./dom.js";

export function tiles() {
  const names = ["Decisions", "Mean reward", "Lift", "Explored", "Arms", "Waiting"];
  const places = Object.fromEntries(names.map((name) => [name, { value: el("dd", {}), note: el("dd", { class: "note" }) }]));
  const list = el("dl", { class: "tiles" },
    ...names.map((name) => el("div", { class: "tile" }, el("dt", {}, name), places[name].value, places[name].note)));
  const set = (name, value, note) => {
    fill(places[name].value, value);
    fill(places[name].note, note);
  };
  return {
    list,
    update(summary, lift) {
      const { policy, control, baseline } = summary.decisions;
      const parts = [[policy, "policy"], [control, "control"], [baseline, "baseline"]].filter(([n]) => n);
      set("Decisions", short(policy + control + baseline), parts.map(([n, by]) => `${short(n)} ${by}`).join(" · ") || "none yet");
      const who = policy || !baseline ? "policy" : "baseline";
      set("Mean reward", number(summary.mean_reward[who]), `per decision of the ${who}`);
      if (lift === null || lift.gain === null) set("Lift", "–", lift?.by === "share" ? "no group to compare with yet" : "needs a control group");
      else set("Lift", signed(lift.gain), `${signed(lift.low)} to ${signed(lift.high)} (95\u00a0%)`);
      const { explored, top_probability: top } = summary.exploration;
      set("Explored", percent(explored), top === null ? "no probabilities recorded" : `top arm has ${percent(top)} on average`);
      set("Arms", whole(summary.n_arms), `${whole(summary.bandit.n_features)} features`);
      set("Waiting", short(summary.waiting), "for a reward");
    },
  };
}

function figure(title, hint, { tall = false } = {}) {
  const chart = el("div", { class: tall ? "chart tall" : "chart" }, el("span", { class: "loading" }, "Loading…"));
  const legend = el("ul", { class: "legend" });
  const note = el("p", { class: "hint" }, hint);
  const made = el("figure", { class: "card" }, el("figcaption", {}, el("h2", {}, title), note), chart, legend);
  return { made, chart, legend, note };
}

const swatch = (item) => el("li", {},
  el("span", { class: "swatch", "data-pattern": item.pattern || "none", "aria-hidden": "true", style: { "--color": item.color } }),
  item.isArm ? nameOf(item.title, 28) : item.title);

export function timeCharts() {
  const decisions = figure("Decisions", "How many, and who decided.");
  const rewards = figure("Mean reward", "By the time of the decision; each point is the mean of at least 20 rewards.");
  const traffic = figure("Traffic by arm", "Share of decisions that chose each arm.", { tall: true });
  const explored = figure("Exploration", "Share of the policy's decisions that chose another arm than the most probable one.", { tall: true });
  return {
    cards: [decisions, rewards, traffic, explored].map(({ made }) => made),
    async update({ over_time: over, changes, exploration }) {
      const items = charts.legendOf(over).map(swatch);
      fill(decisions.legend, ...items);
      fill(rewards.legend, ...items.map((item) => item.cloneNode(true)));
      fill(traffic.legend, ...charts.trafficLegend(over).map(swatch));
      if (exploration.arms_in_play !== null) {
        fill(explored.legend, el("li", {}, `${number(exploration.arms_in_play)} arms in play on average`));
      }
      await charts.drawDecisions(decisions.chart, over, changes);
      await charts.drawRewards(rewards.chart, over, changes);
      await charts.drawTraffic(traffic.chart, over, changes);
      await charts.drawExplored(explored.chart, over, changes);
    },
  };
}

const STATES = { ok: ["✓", "Holds"], watch: ["!", "Look at it"], broken: ["✕", "Broken"], unknown: ["?", "Not known yet"] };

export function promises() {
  const list = el("ul", { class: "promises" });
  const card = el("section", { class: "card", "aria-labelledby": "promises-title" }, el("h2", { id: "promises-title" }, "Promises"), list);
  return {
    card,
    update(summary) {
      fill(list, ...summary.promises.map((each) => {
        const [mark, word] = STATES[each.state];
        return el("li", { "data-state": each.state },
          el("span", { class: "badge" }, el("span", { "aria-hidden": "true" }, mark), ` ${word}`),
          el("div", {}, el("strong", {}, each.name), el("p", {}, each.text)));
      }));
    },
  };
}

export function calibrationChart() {
  const { made, chart, note } = figure("Probabilities", "");
  return {
    card: made,
    async update({ calibration }) {
      const z = calibration.z === null ? "too few decisions for a test" : `largest difference ${signed(calibration.z, 2)} standard deviations`;
      fill(note, `How often arms were chosen, by recorded probability; on the line is right. ${whole(calibration.decisions)} decisions, ${z}.`);
      await charts.drawCalibration(chart, calibration);
    },
  };
}

const FATES = [
  ["learned", "learned"], ["default", "none came, the default was learned"], ["expired", "none came, nothing was learned"],
  ["not_learned", "came while stopped, not learned"], ["late", "late, not learned"], ["conflicting", "conflicting, not learned"],
  ["invalid", "invalid, not learned"], ["unknown", "unknown decision"], ["rejected", "rejected by the policy"],
];

export function rewardCharts() {
  const delays = figure("Reward delay", "From the decision to its reward.");
  const list = el("ul", { class: "bars" });
  const fate = el("section", { class: "card", "aria-labelledby": "fates-title" },
    el("h2", { id: "fates-title" }, "What became of rewards"),
    el("p", { class: "hint" }, "One per arm that was shown and is no longer open, and one per reward that does not count."), list);
  return {
    cards: [delays.made, fate],
    async update(summary) {
      const rows = [...FATES.map(([name, title]) => [title, summary.fates[name] ?? 0]), ["still waiting", summary.waiting]]
        .filter(([title, n]) => n > 0 || title === "learned");
      const total = rows.reduce((sum, [, n]) => sum + n, 0) || 1;
      fill(list, ...rows.map(([title, n]) => el("li", {},
        el("span", { class: "bar-title" }, title), el("span", { class: "bar-value" }, `${whole(n)} (${percent(n / total)})`),
        el("span", { class: "bar-track", "aria-hidden": "true" }, el("span", { class: "bar-fill", style: { width: `${(100 * n) / total}%` } })))));
      await charts.drawDelays(delays.chart, summary.delays);
    },
  };
}

const LIFTS = {
  control: { title: "Against the control group", other: "control group", need: "Set a control share above 0: for these people, arms are drawn at random." },
  share: { title: "Against the baseline", other: "people outside the share", need: "Set a share below 100 %: the rest gets the baseline." },
};

export function liftCard() {
  const parts = Object.entries(LIFTS).map(([by, text]) => ({ by, text, place: el("div", { class: "lift" }) }));
  const card = el("section", { class: "card", "aria-labelledby": "lift-title" },
    el("h2", { id: "lift-title" }, "Lift"),
    el("p", { class: "hint" }, "What the policy gains per decision over people who were assigned to another group at random. ",
      "This is the causal estimate. Means of single arms are not: arms are shown in different situations. ",
      "An interval is right for one look: who stops as soon as it excludes 0 errs more often."),
    ...parts.map(({ place }) => place));
  return {
    card,
    update(lifts) {
      for (const { by, text, place } of parts) fill(place, ...oneLift(lifts[by], text));
    },
  };
}

function oneLift(lift, text) {
  if (!lift) return [el("h3", {}, text.title), el("p", { class: "hint" }, "Loading…")];
  if (lift.gain === null) {
    return [el("h3", {}, text.title), el("p", { class: "hint" }, lift.n_other ? `No estimate yet: ${lift.reason}.` : `No estimate. ${text.need}`)];
  }
  const reach = 1.15 * Math.max(Math.abs(lift.low), Math.abs(lift.high), 1e-12);
  const at = (x) => `${50 + (50 * x) / reach}%`;
  const verdict = lift.low > 0 ? "The policy is better." : lift.high < 0 ? "The policy is worse." : "No difference is shown yet.";
  return [
    el("h3", {}, text.title),
    el("p", { class: "lift-value" }, el("strong", {}, signed(lift.gain)), ` per decision (${signed(lift.low)} to ${signed(lift.high)}, ${percent(lift.level)} interval). ${verdict}`),
    el("div", { class: "interval wide", "aria-hidden": "true" },
      el("span", { class: "interval-zero", style: { left: "50%" } }),
      el("span", { class: "interval-line", style: { left: at(lift.low), width: `${(50 * (lift.high - lift.low)) / reach}%` } }),
      el("span", { class: "interval-dot", style: { left: at(lift.gain) } })),
    el("p", { class: "hint" },
      `Policy ${number(lift.policy)} (${whole(lift.n_policy)} decisions, effective sample size ${whole(lift.effective_n_policy)}), `,
      `${text.other} ${number(lift.other)} (${whole(lift.n_other)} decisions, effective ${whole(lift.effective_n_other)}). Since ${moment(lift.since)}.`),
  ];
}
