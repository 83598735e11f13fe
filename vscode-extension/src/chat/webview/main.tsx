import "./translations";
import { render } from "preact";
import { App } from "./app";
import { post } from "./host";
import { drawn } from "./icons";
import "./style.css";
import "./permission.css";
import "./explore.css";
import "./access.css";
import { t } from "../../l10n";

/** Actions of a code block's buttons; the messages to the host have the same names. */
const ACTIONS = ["copy", "insertCode", "terminal"] as const;

const root = document.getElementById("app");
if (root) render(<App />, root);

// Links and copy buttons are inside rendered Markdown, which components do not reach.
document.addEventListener("click", (event) => {
  const element = event.target instanceof Element ? event.target : undefined;
  const link = element?.closest("a");
  if (link) {
    event.preventDefault();
    const { href } = link.dataset;
    if (href) post({ type: "openLink", href });
    return;
  }
  const button = element?.closest<HTMLButtonElement>("button[data-code]");
  const text = button?.closest(".code")?.querySelector("code")?.textContent;
  const action = ACTIONS.find((one) => one === button?.dataset["code"]);
  if (!button || !text || !action) return;
  post({ type: action, text });
  if (action !== "copy") return;
  const [title, shown] = [button.title, button.innerHTML];
  if (title === t("Copied")) return;
  Object.assign(button, { title: t("Copied"), ariaLabel: t("Copied"), innerHTML: drawn("check") });
  setTimeout(() => Object.assign(button, { title, ariaLabel: title, innerHTML: shown }), 1_500);
});
