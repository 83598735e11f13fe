// The list of traces, newest first.

import { ApiError } from "./api.js";
import { h } from "./dom.js";
import { amount, money, sessionWord, statusIcon } from "./format.js";
import { t } from "./l10n.js";

/** @import { Api } from "./api.js" */
/** @import { TraceMeta } from "./shapes.js" */

const PAGE = 50;
/** Further requests for a page when few traces fit the filters: the server looks at some thousands for each. */
const MORE_PAGES = 3;
const MOST_FOUND = 20;

export class TraceList {
  /**
   * @param {{ list: HTMLElement, note: HTMLElement, more: HTMLButtonElement, form: HTMLFormElement, query: HTMLInputElement, status: HTMLSelectElement, found: HTMLElement }} parts
   * @param {Api} api
   */
  constructor(parts, api) {
    this.parts = parts;
    this.api = api;
    /** @type {TraceMeta[]} */
    this.traces = [];
    /** Number of traces to request, which grows when the user asks for more. */
    this.wanted = PAGE;
    /** @type {string | null} */
    this.selected = null;
    /** The open trace as its socket reports it. @type {TraceMeta | null} */
    this.open = null;
    this.asked = 0;
    /** The text that was searched for last. */
    this.searched = "";
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    parts.query.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        void this.refresh();
        void this.search();
      }, 200);
    });
    parts.status.addEventListener("change", () => void this.refresh());
    parts.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.refresh();
      void this.search();
    });
    parts.more.addEventListener("click", () => {
      this.wanted += PAGE;
      void this.refresh();
    });
  }

  /** @returns {Promise<boolean>} whether the API answered */
  async refresh() {
    const asked = ++this.asked;
    const { query, status, more, note } = this.parts;
    let pages = this.wanted / PAGE + MORE_PAGES;
    /** @type {TraceMeta[]} */
    const traces = [];
    /** @type {string | null} */
    let before = null;
    try {
      do {
        /** @type {{ traces: TraceMeta[], next: string | null }} */
        const page = await this.api.get("traces", { limit: PAGE, before, q: query.value.trim(), status: status.value });
        if (asked !== this.asked) return true;
        traces.push(...page.traces);
        before = page.next;
      } while (before && traces.length < this.wanted && --pages > 0);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // The list has its own note and clears only that: the connection of the open trace may be fine.
      if (asked === this.asked && note.textContent !== error.message) note.textContent = error.message;
      return false;
    }
    note.textContent = "";
    more.hidden = before === null;
    this.traces = traces;
    this.paint();
    return true;
  }

  /** Shows sessions that have the text anywhere: in messages, goals, and names of changed files. */
  async search() {
    const { query, found } = this.parts;
    const text = query.value.trim();
    if (text === this.searched) return;
    this.searched = text;
    /** @type {{ found: Found[], next: string | null }} */
    let answer = { found: [], next: null };
    let problem = "";
    try {
      if (text) answer = await this.api.get("search", { q: text, limit: MOST_FOUND });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem = error.message;
      this.searched = "";
    }
    if (text !== query.value.trim()) return;
    found.hidden = !text;
    const none = problem || (answer.found.length === 0 ? t("Nothing was found.") : "");
    const more = answer.next === null ? "" : t("There are more: write more of the text.");
    found.replaceChildren(h("h2", {}, t("Found in sessions")), h("ol", {}, ...answer.found.map(foundEntry)), h("p", { class: "note", role: "status" }, none || more));
  }

  /** @param {string | null} traceId */
  select(traceId) {
    this.selected = traceId;
    this.paint();
  }

  /**
   * Shows news of the open trace without requesting the list again.
   * @param {TraceMeta} trace
   */
  heard(trace) {
    this.open = trace;
    const known = this.traces.find((one) => one.traceId === trace.traceId);
    const link = [...this.parts.list.querySelectorAll("[data-trace]")].find((one) => one.getAttribute("data-trace") === trace.traceId);
    const shown = link?.parentElement;
    if (!known || !link || !shown) return;
    const now = this.entry(known);
    if (now.isEqualNode(shown)) return;
    const focused = link === document.activeElement;
    shown.replaceWith(now);
    if (focused && now.firstElementChild instanceof HTMLElement) now.firstElementChild.focus({ preventScroll: true });
  }

  /** @param {TraceMeta} listed */
  entry(listed) {
    const { open } = this;
    const newer = open !== null && open.traceId === listed.traceId && (open.lastEventId ?? 0) > (listed.lastEventId ?? 0);
    const trace = newer ? { ...listed, status: open.status, title: open.title, totalTokens: open.totalTokens, totalCost: open.totalCost, unpricedTokens: open.unpricedTokens } : listed;
    return entry(trace, trace.traceId === this.selected);
  }

  paint() {
    const { list } = this.parts;
    const focused = document.activeElement?.getAttribute("data-trace");
    list.replaceChildren(...this.traces.map((trace) => this.entry(trace)));
    if (!this.traces.length) list.append(h("li", { class: "note" }, t("No traces.")));
    if (focused) {
      const again = [...list.querySelectorAll("[data-trace]")].find((one) => one.getAttribute("data-trace") === focused);
      if (again instanceof HTMLElement) again.focus({ preventScroll: true });
    }
  }
}

/**
 * @param {TraceMeta} trace
 * @param {boolean} selected
 */
function entry(trace, selected) {
  const when = new Date(trace.updatedAt ?? trace.createdAt ?? "");
  const facts = [sessionWord(trace.status), t("{0} tokens", amount(trace.totalTokens)), money(trace.totalCost, trace.unpricedTokens)].filter(Boolean).join(" · ");
  return h("li", {}, h("a", { href: `#/${encodeURIComponent(trace.traceId)}`, "data-trace": trace.traceId, "aria-current": selected ? "true" : null, class: `trace ${trace.status}` },
    h("span", { class: "icon", "aria-hidden": "true" }, statusIcon(trace.status)),
    h("b", {}, titleOf(trace)),
    h("small", {}, facts),
    h("time", {}, Number.isNaN(when.valueOf()) ? "" : dayOf(when))));
}

/** @typedef {{ traceId: string, branchId: string | null, title: string, workspace: string, user: string, kind: string, excerpt: string }} Found */

/** @param {Found} one */
function foundEntry(one) {
  const place = one.workspace.split("/").at(-1) ?? "";
  return h("li", {}, h("a", { href: `#/${encodeURIComponent(one.traceId)}`, class: "trace" },
    h("span", { class: "icon", "aria-hidden": "true" }, "⌕"),
    h("b", {}, one.title || t("Untitled")),
    h("small", {}, one.excerpt),
    h("small", {}, [KINDS[one.kind] ?? one.kind, one.user, place].filter(Boolean).join(" · "))));
}

/** @type {Record<string, string>} */
const KINDS = { title: t("title"), message: t("message"), goal: t("goal"), file: t("changed file") };

/** @param {TraceMeta} trace */
export const titleOf = (trace) => trace.title || trace.task?.split("\n", 1)[0]?.slice(0, 120) || t("Untitled");

/** @param {Date} when */
function dayOf(when) {
  const today = new Date().toDateString() === when.toDateString();
  return today ? when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : when.toLocaleDateString([], { month: "short", day: "numeric" });
}
