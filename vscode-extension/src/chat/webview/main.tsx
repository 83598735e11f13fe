import "./translations";
import { render } from "preact";
import { App } from "./app";
import { post } from "./host";
import "./style.css";
import "./permission.css";
import "./explore.css";
import "./access.css";
import { t } from "../../l10n";

const root = document.getElementById("app");
if (root) render(<App />, root);

// Links and copy buttons are inside of rendered markdown, where components do not reach.
document.addEventListener("click", (event) => {
  const element = event.target instanceof Element ? event.target : undefined;
  const link = element?.closest("a");
  if (link) {
    event.preventDefault();
    const { href } = link.dataset;
    if (href) post({ type: "openLink", href });
    return;
  }
  const copy = element?.closest<HTMLButtonElement>("button[data-copy]");
  const code = copy?.closest(".code")?.querySelector("code")?.textContent;
  if (copy && code) {
    post({ type: "copy", text: code });
    copy.textContent = t("Copied");
    setTimeout(() => (copy.textContent = t("Copy")), 1_500);
  }
});
