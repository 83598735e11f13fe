// Signing in to a shared server. The browser keeps the token in a cookie that no script can read.

import { ApiError, sign } from "./api.js";
import { part } from "./dom.js";
import { t } from "./l10n.js";

/** @import { Api } from "./api.js" */

/** Asks for a token until one is right, and loads the page again. Asking twice shows one dialog. */
export function askForToken() {
  const dialog = part("sign-in", HTMLDialogElement);
  if (dialog.open) return;
  const [form, input, problem] = [part("sign-in-form", HTMLFormElement), part("sign-in-token", HTMLInputElement), part("sign-in-problem", HTMLElement)];
  const button = part("sign-in-button", HTMLButtonElement);
  // There is nothing behind it to go back to.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    button.disabled = true;
    void sign("sign-in", input.value).then((failed) => {
      button.disabled = false;
      problem.textContent = failed;
      input.value = "";
      if (failed) input.focus();
      else location.reload();
    });
  });
  dialog.showModal();
  input.focus();
}

/**
 * Shows who is signed in, with a button to sign out.
 * @param {Api} api
 */
export async function showUser(api) {
  try {
    const { user, scopes } = await api.get("me");
    part("user-name", HTMLElement).textContent = scopes.includes("all") ? t("{0}, all sessions", user) : user;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return;
  }
  part("user", HTMLElement).hidden = false;
  part("sign-out", HTMLButtonElement).addEventListener("click", () => void sign("sign-out").then(() => location.reload()));
}
