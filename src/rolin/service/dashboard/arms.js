// The table of arms. The service sorts, searches and cuts it into pages, so that 5000 arms are as fast as 5.

import { bandit, call, get } from "./api.js";
import { confirm } from "./dialog.js";
import { alike, el, fill, nameOf, say, whole, withStd } from "./dom.js";

const COLUMNS = [
  { sort: "arm", title: "Arm", first: "" },
  { sort: "pulls", title: "Pulls", first: "-", help: "Rewards that were learned" },
  { sort: "mean", title: "Posterior mean", first: "-", help: "Expected reward in the arm's average situation, with its 95 % interval" },
  { sort: "effect", title: "Own effect", first: "-", help: "What the features do not explain, ± its standard deviation" },
  { sort: "shrinkage", title: "Shrinkage", first: "-", help: "0: judged by its features, as a new arm; 1: judged by its own rewards" },
];

export function armsCard(state) {
  const view = { search: "", sort: "-pulls", offset: 0 };
  const size = () => (matchMedia("(max-width: 700px)").matches ? 10 : 25);
  const search = el("input", { type: "search", placeholder: "Search arms", "aria-label": "Search arms", id: "arm-search" });
  const heads = COLUMNS.map((column) => {
    const button = el("button", { type: "button", class: "sort", title: column.help }, column.title, el("span", { class: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      view.sort = view.sort.replace("-", "") === column.sort
        ? (view.sort.startsWith("-") ? column.sort : `-${column.sort}`) : column.first + column.sort;
      view.offset = 0;
      load();
    });
    return { ...column, head: el("th", { scope: "col" }, button) };
  });
  const body = el("tbody", {});
  const count = el("p", { class: "hint", role: "status" });
  const before = el("button", { type: "button", on: { click: () => move(-1) } }, "Previous");
  const after = el("button", { type: "button", on: { click: () => move(1) } }, "Next");
  const table = el("table", { class: "arms" },
    el("caption", { class: "sr" }, "Arms"),
    el("thead", {}, el("tr", {}, ...heads.map(({ head }) => head), el("th", { scope: "col" }, el("span", { class: "sr" }, "Action")))), body);
  const card = el("section", { class: "card", "aria-labelledby": "arms-title" },
    el("div", { class: "card-head" }, el("h2", { id: "arms-title" }, "Arms"), search),
    el("p", { class: "hint" }, "What the model believes of each arm in its average situation so far. ",
      "These means are not causal: arms are shown in different situations. Only the lift compares people at random."),
    el("div", { class: "scroll" }, table),
    el("div", { class: "pager" }, count, el("span", {}, before, after)));

  let waiting = null;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      view.search = search.value;
      view.offset = 0;
      load();
    }, 200);
  });

  function move(step) {
    view.offset = Math.max(0, view.offset + step * size());
    load();
  }

  function ask(arm, removed) {
    const path = bandit(state.bandit, `/removed-arms/${encodeURIComponent(arm)}`);
    const done = (said) => async () => {
      await call(removed ? "DELETE" : "PUT", path);
      say(said);
      await load();
    };
    if (removed) confirm(["Restore ", nameOf(arm)], ["It can be offered again, and goes on with what was learned about it."], "Restore it", done("Arm restored"));
    else confirm(["Remove ", nameOf(arm)], [
      "From now on, requests that offer this arm are refused with status 400. So stop offering it first.",
      "What was learned stays, and you can restore the arm. It also leaves the registered arms."], "Remove it", done("Arm removed"), { dangerous: true });
  }

  let latest = 0;
  async function load() {
    const mine = ++latest;
    const query = new URLSearchParams({ search: view.search, sort: view.sort, offset: view.offset, limit: size() });
    const found = await get(bandit(state.bandit, `/estimates?${query}`));
    if (mine !== latest) return; // a later request was faster
    draw(found);
  }

  function draw(found) {
    for (const { head, sort } of heads) {
      const is = view.sort.replace("-", "") === sort;
      if (is) head.setAttribute("aria-sort", view.sort.startsWith("-") ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const seen = found.arms.filter((arm) => arm.low !== null);
    const low = Math.min(...seen.map((arm) => arm.low));
    const high = Math.max(...seen.map((arm) => arm.high));
    const shown = alike(high - low);
    fill(body, ...found.arms.map((arm) => rowOf(arm, low, high, shown)));
    if (!found.arms.length) {
      fill(body, el("tr", {}, el("td", { colspan: COLUMNS.length + 1, class: "empty" },
        view.search ? "No arm has this in its name." : "No arms yet: they appear with the first decision.")));
    }
    const first = found.total ? view.offset + 1 : 0;
    fill(count, `${whole(first)} to ${whole(Math.min(view.offset + size(), found.total))} of ${whole(found.total)} arms`);
    before.disabled = view.offset === 0;
    after.disabled = view.offset + size() >= found.total;
  }

  function rowOf(arm, low, high, shown) {
    const width = high - low || 1;
    const at = (x) => `${(100 * (x - low)) / width}%`;
    const cell = (title, ...content) => el("td", { "data-title": title }, el("div", {}, ...content));
    const interval = arm.mean === null ? "–" : el("div", { class: "with-interval" },
      el("span", {}, shown(arm.mean), el("small", {}, ` ${shown(arm.low)} to ${shown(arm.high)}`)),
      el("div", { class: "interval", "aria-hidden": "true" },
        el("span", { class: "interval-line", style: { left: at(arm.low), width: `${(100 * (arm.high - arm.low)) / width}%` } }),
        el("span", { class: "interval-dot", style: { left: at(arm.mean) } })));
    const action = el("button", { type: "button", class: "quiet", "data-arm": arm.arm, "data-action": arm.removed ? "restore" : "remove" },
      arm.removed ? "Restore" : "Remove", el("span", { class: "sr" }, ` ${arm.arm}`));
    return el("tr", { "data-removed": arm.removed ? "yes" : null },
      el("th", { scope: "row" }, nameOf(arm.arm), arm.removed ? el("span", { class: "chip" }, "removed") : null),
      cell("Pulls", whole(arm.pulls)),
      cell("Posterior mean", interval),
      cell("Own effect", arm.effect === null ? "–" : withStd(arm.effect, arm.effect_std)),
      cell("Shrinkage", arm.shrinkage === null ? "–" : arm.shrinkage.toFixed(2)),
      el("td", { class: "action" }, action));
  }
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-arm]");
    if (button) ask(button.dataset.arm, button.dataset.action === "restore");
  });

  return {
    card,
    // Rows do not move while somebody is about to press one of their buttons.
    update: () => (body.contains(document.activeElement) || body.matches(":hover") ? Promise.resolve() : load()),
  };
}
