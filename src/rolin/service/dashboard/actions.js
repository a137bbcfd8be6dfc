// What an administrator can do: the mode, the shares and the floor.

import { bandit, call } from "./api.js";
import { confirm } from "./dialog.js";
import { el, fill, nameOf, percent, say } from "./dom.js";

export const MODES = {
  online: {
    title: "Online", mark: "●", action: "Go online", text: "The policy chooses, and learns from every reward.",
    asked: ["The policy will choose and learn again."],
  },
  apprentice: {
    title: "Apprentice", mark: "◐", action: "Make it an apprentice",
    text: "The baseline is shown. The policy learns, and what it would have chosen is recorded.",
    asked: ["Everybody will get the baseline. The policy goes on learning, but decides nothing."],
  },
  stopped: {
    title: "Stopped", mark: "■", action: "Stop it", dangerous: true,
    text: "The baseline is shown, and nothing is learned.",
    asked: ["Everybody will get the baseline, and no reward will be learned.",
      "This takes effect with the next decision. You can go online again at any time."],
  },
};
const NUMBERS = [
  { name: "share", title: "Share", most: 1, hint: "of people for whom the policy decides; the rest gets the baseline" },
  { name: "control_share", title: "Control share", most: 1, hint: "of people for whom arms are drawn at random, to measure the lift" },
  { name: "floor", title: "Floor", most: 0.5, hint: "least probability of every arm; with n arms at most 1/n" },
];

export function actionsCard(state, reload) {
  const modes = el("div", { class: "segments modes", role: "group", "aria-label": "Mode" });
  const buttons = Object.entries(MODES).map(([mode, { title, mark }]) =>
    el("button", { type: "button", "data-mode": mode, on: { click: () => askMode(mode) } },
      el("span", { "aria-hidden": "true", class: "mark" }, mark), ` ${title}`));
  modes.append(...buttons);
  const explained = el("p", { class: "hint" });
  const fields = NUMBERS.map((each) => {
    const id = `set-${each.name}`;
    const input = el("input", { id, type: "number", min: 0, max: 100 * each.most, step: "any", inputmode: "decimal", "aria-describedby": `${id}-hint` });
    const apply = el("button", { type: "submit" }, "Apply");
    const form = el("form", { class: "setting" },
      el("label", { for: id }, each.title), el("span", { class: "with-unit" }, input, el("span", { "aria-hidden": "true" }, "%")), apply,
      el("span", { class: "hint", id: `${id}-hint` }, each.hint));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      askNumber(each, input);
    });
    return { ...each, input, form };
  });
  const locked = el("p", { class: "hint locked" });
  const changes = el("ol", { class: "changes" });

  function change(settings, said) {
    return async () => {
      await call("PATCH", bandit(state.bandit), { settings });
      say(said);
      fields.forEach(({ input }) => input.removeAttribute("data-edited"));
      await reload();
    };
  }

  function askMode(mode) {
    const { title, action, asked, dangerous } = MODES[mode];
    confirm([`${title}: `, nameOf(state.bandit)], asked, action, change({ mode }, `${state.bandit} is now ${mode}`), { dangerous });
  }

  function askNumber(each, input) {
    const value = Number(input.value) / 100;
    const before = state.summary.bandit.settings[each.name];
    const lines = [`${each.title}: ${percent(before)} → ${percent(value)} (${each.hint}).`];
    if (each.name !== "floor") lines.push("The lift will be counted anew from this change on, because before and after cannot be compared.");
    confirm(`Change the ${each.title.toLowerCase()}?`, lines, "Change it", change({ [each.name]: value }, `${each.title} changed`));
  }

  fields.forEach(({ input }) => input.addEventListener("input", () => input.setAttribute("data-edited", "")));
  const card = el("section", { class: "card", "aria-labelledby": "actions-title" },
    el("h2", { id: "actions-title" }, "Control"), modes, explained, el("div", { class: "settings" }, ...fields.map(({ form }) => form)), locked,
    el("h3", {}, "Latest changes"), changes);

  function update(summary) {
    const { settings } = summary.bandit;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.mode === settings.mode));
    fill(explained, MODES[settings.mode].text);
    for (const { name, input } of fields) {
      // What somebody is typing stays.
      if (!input.hasAttribute("data-edited") && document.activeElement !== input) {
        const shown = String(Number((100 * settings[name]).toPrecision(6)));
        if (input.value !== shown) input.value = shown;
      }
    }
    fill(locked, state.isAdmin ? "" : "This key can only read: changes will be refused. Actions need a key with the scope admin.");
    const items = [...summary.changes].reverse().slice(0, 5).map((each) =>
      el("li", {}, el("time", {}, new Date(1000 * each.time).toLocaleString([], { dateStyle: "short", timeStyle: "short" })), ` ${each.text}`));
    fill(changes, ...(items.length ? items : [el("li", { class: "hint" }, "None so far.")]));
  }
  return { card, update };
}
