// The first module of the web page: it loads the browser's language, then the page. English needs no catalogue.

import { setCatalogue, t } from "./l10n.js";

const TRANSLATED = ["title", "placeholder", "aria-label"];

async function readCatalogue() {
  const here = new URL(import.meta.url);
  try {
    const answer = await fetch(new URL(`zh-cn.json${here.search}`, here));
    if (!answer.ok) return;
    setCatalogue(await answer.json());
    document.documentElement.lang = "zh-CN";
    translate(document.documentElement);
  } catch {
    // Without a catalogue the page stays in English, and reports itself that the daemon does not answer.
  }
}

/** @param {Element} element whose texts, all from `index.html`, are translated */
function translate(element) {
  for (const name of TRANSLATED) {
    const text = element.getAttribute(name);
    if (text) element.setAttribute(name, t(text));
  }
  for (const child of element.childNodes) {
    if (child instanceof Element && child.localName !== "script") translate(child);
    else if (child instanceof Text && child.data.trim()) child.data = child.data.replace(child.data.trim(), t(child.data.trim()));
  }
}

// Attach this before the page loads, because the link's target would replace the address that names the trace.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("view")?.focus();
});
if (/^zh\b/i.test(navigator.language)) await readCatalogue();
await import("./page.js");
