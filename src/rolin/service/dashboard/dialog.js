// One dialog for questions, explanations and refusals. Esc closes it, and the focus returns to where it was.

import { el } from "./dom.js";

const dialog = document.getElementById("dialog");
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close(); // outside of its content
});

export function show(title, content, buttons = []) {
  const close = el("button", { type: "button", on: { click: () => dialog.close() } }, buttons.length ? "Cancel" : "Close");
  const body = el("div", { class: "dialog-content" });
  body.append(...[content].flat());
  dialog.replaceChildren(
    el("div", { class: "dialog-box" },
      el("h2", { id: "dialog-title" }, ...[title].flat()),
      body,
      el("p", { class: "error", role: "alert" }),
      el("div", { class: "dialog-buttons" }, close, ...buttons)),
  );
  if (!dialog.open) dialog.showModal();
  close.focus();
  return body;
}

// Ask before an action is done; a refusal is shown in the dialog.
export function confirm(title, lines, action, work, { dangerous = false } = {}) {
  const go = el("button", { type: "button", class: dangerous ? "danger" : "primary" }, action);
  go.addEventListener("click", async () => {
    const error = dialog.querySelector(".error");
    error.textContent = "";
    go.disabled = true;
    try {
      await work();
      dialog.close();
    } catch (refused) {
      error.textContent = refused.status === 403
        ? `${refused.message}. Sign out and enter a key with the scope admin.`
        : refused.message;
      go.disabled = false;
    }
  });
  show(title, lines.map((line) => el("p", {}, ...[line].flat())), [go]);
}
