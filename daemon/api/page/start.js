// The first module of the web page: the language of the browser, then the page. In English no catalogue is read.

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
    // Without an answer the page stays in English; that nobody answers, it says itself.
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

// At once: a click before the page is loaded would put the link's target into the address, which names the trace.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("view")?.focus();
});
if (/^zh\b/i.test(navigator.language)) await readCatalogue();
await import("./page.js");
