// The step tree: loaded level by level, kept up to date by the frames of the WebSocket.

import { ApiError } from "./api.js";
import { h } from "./dom.js";
import { amount, duration, listed, money, statusIcon, statusWord, stepTypeWord } from "./format.js";
import { t } from "./l10n.js";

/** @import { Api } from "./api.js" */
/** @import { Frame, Step } from "./shapes.js" */

/**
 * A known step and its place in the page.
 * @typedef {object} Item
 * @property {Step} step
 * @property {HTMLLIElement} element
 * @property {HTMLElement} row
 * @property {HTMLUListElement | null} group
 * @property {boolean} open
 * @property {boolean} begun whether its newest children are loaded
 * @property {boolean} loaded whether all of its children are loaded
 */

/** Steps of a level per request, newest first, because users of a long session look for the latest ones. */
const PAGE = 500;

export class StepTree {
  /**
   * @param {HTMLElement} host
   * @param {Api} api
   * @param {(step: Step) => void} onOpen
   */
  constructor(host, api, onOpen) {
    this.host = host;
    this.api = api;
    this.onOpen = onOpen;
    this.traceId = "";
    /** @type {string | null} */
    this.branchId = null;
    /** @type {Map<string, Item>} */
    this.items = new Map();
    this.root = h("ul", { class: "steps", role: "tree", "aria-label": t("Steps") });
    this.note = h("p", { class: "note", role: "status" });
    this.generation = 0;
    this.loaded = false;
    this.rootLoaded = false;
    /** Frames received before the first answer. @type {Frame[]} */
    this.waiting = [];
    /** Frames with new steps, by the step whose children are being fetched. @type {Map<string, Frame[]>} */
    this.underWay = new Map();
    host.replaceChildren(this.note, this.root);
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    this.root.addEventListener("click", (event) => this.clicked(event));
  }

  /**
   * @param {string} traceId
   * @param {string | null} branchId
   */
  async show(traceId, branchId) {
    const generation = ++this.generation;
    const open = this.traceId === traceId && this.branchId === branchId ? [...this.items.values()].filter((item) => item.open).map((item) => item.step.stepId) : [];
    [this.traceId, this.branchId, this.loaded, this.waiting] = [traceId, branchId, false, []];
    if (!open.length) this.note.textContent = t("Loading…");
    const level = await this.fetch("root");
    if (generation !== this.generation || !level) return;
    this.items.clear();
    this.underWay.clear();
    this.root.replaceChildren();
    this.loaded = this.rootLoaded = true;
    this.note.textContent = level.children.length ? "" : t("No steps yet.");
    this.fill(this.root, "root", level);
    for (const frame of this.waiting.splice(0)) this.apply(frame);
    // When nothing was open, expand the running step, because users want to see that.
    const running = level.children.findLast((step) => step.status === "in_progress");
    const wanted = open.length ? open : running ? [running.stepId] : [];
    for (const id of wanted) await this.toggle(id, true);
    if (running && !open.length && generation === this.generation) this.root.querySelector(":scope > [data-id]:last-of-type .step:last-of-type, :scope > [data-id]:last-of-type")?.scrollIntoView({ block: "nearest" });
  }

  /**
   * @param {string} stepId
   * @param {string} [before] the first child that is loaded
   * @returns {Promise<{ children: Step[], more?: boolean } | null>}
   */
  async fetch(stepId, before) {
    // A frame received during the request may be missing in the answer, so it is applied again afterwards.
    this.underWay.set(stepId, []);
    try {
      const path = `traces/${encodeURIComponent(this.traceId)}/node/${encodeURIComponent(stepId)}`;
      return await this.api.get(path, { branch_id: this.branchId, limit: PAGE, newest: true, before });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.note.textContent = error.message;
      return null;
    }
  }

  /** Applies the frames received while a step's children were fetched. @param {string} stepId */
  caughtUp(stepId) {
    const frames = this.underWay.get(stepId) ?? [];
    this.underWay.delete(stepId);
    for (const frame of frames) this.apply(frame);
  }

  /**
   * @param {HTMLUListElement} group
   * @param {string} stepId the step whose children these are, or `root`
   * @param {{ children: Step[], more?: boolean }} level
   */
  fill(group, stepId, { children, more }) {
    // Frames may have added some of these steps already.
    group.prepend(...children.filter((step) => !this.items.has(step.stepId)).map((step) => this.item(step).element));
    const item = this.items.get(stepId);
    if (item) [item.begun, item.loaded] = [true, !more];
    else this.rootLoaded = !more;
    if (!more) return;
    const rest = h("li", { class: "rest", role: "none" }, h("button", { type: "button", onclick: async () => {
      const { generation } = this;
      const first = rest.nextElementSibling?.getAttribute("data-id") ?? undefined;
      const next = await this.fetch(stepId, first);
      if (generation !== this.generation) return;
      if (next) {
        // Keep the scroll position relative to the end, so that the visible steps stay in place.
        const below = this.host.scrollHeight - this.host.scrollTop;
        rest.remove();
        this.fill(group, stepId, next);
        this.host.scrollTop = this.host.scrollHeight - below;
      }
      this.caughtUp(stepId);
    } }, t("Earlier steps")));
    group.prepend(rest);
  }

  /** @param {Step} step */
  item(step) {
    const row = h("div", { class: "row" });
    const element = h("li", { role: "treeitem", "data-id": step.stepId, tabindex: this.items.size === 0 ? 0 : -1 }, row);
    /** @type {Item} */
    const item = { step, element, row, group: null, open: false, begun: false, loaded: false };
    this.items.set(step.stepId, item);
    this.paint(item);
    return item;
  }

  /** @param {Item} item */
  paint({ step, element, row, open }) {
    const children = step.childCount ?? 0;
    element.className = `step ${step.stepType} ${step.status}`;
    if (children) element.setAttribute("aria-expanded", String(open));
    else element.removeAttribute("aria-expanded");
    const facts = [duration(step.durationMs), step.tokens ? t("{0} tokens", amount(step.tokens)) : "", money(step.cost, step.unpricedTokens)].filter(Boolean).join(" · ");
    element.setAttribute("aria-label", listed([stepTypeWord(step.stepType), step.description, statusWord(step.status), facts]));
    row.replaceChildren(
      h("span", { class: "twist", "aria-hidden": "true" }, children ? (open ? "▾" : "▸") : ""),
      h("span", { class: "icon", "aria-hidden": "true" }, statusIcon(step.status)),
      h("span", { class: "type" }, stepTypeWord(step.stepType)),
      h("span", { class: "words" }, step.summary || step.description),
      children && !open ? h("span", { class: "count" }, amount(children)) : "",
      h("span", { class: "cost" }, facts),
    );
  }

  /**
   * @param {string} stepId
   * @param {boolean} open
   */
  async toggle(stepId, open) {
    const item = this.items.get(stepId);
    if (!item || item.open === open || (open && !item.step.childCount)) return;
    item.open = open;
    this.paint(item);
    if (item.group) item.group.hidden = !open;
    if (!open || item.loaded) return;
    const generation = this.generation;
    item.group ??= h("ul", { role: "group" });
    item.element.append(item.group);
    const level = await this.fetch(stepId);
    if (generation !== this.generation) return;
    if (level) this.fill(item.group, stepId, level);
    else item.open = false;
    this.caughtUp(stepId);
    if (item.loaded) item.step.childCount = item.group.children.length;
    this.paint(item);
  }

  /**
   * Applies a frame of the WebSocket; ignores frames about anything else.
   * @param {Frame} frame
   */
  apply(frame) {
    if (frame.event !== "step_added" && frame.event !== "step_updated") return;
    if ((frame["branchId"] ?? null) !== this.branchId) return;
    if (!this.loaded) {
      this.waiting.push(frame);
      return;
    }
    const known = this.items.get(frame["stepId"] ?? frame["step"]?.stepId ?? "");
    if (known) {
      const { beforeId: before = null, ...updates } = frame["updates"] ?? withoutCount(frame["step"]);
      const from = known.step.parentId ?? null;
      Object.assign(known.step, updates);
      this.paint(known);
      if ((known.step.parentId ?? null) !== from) this.move(known, from, before);
      return;
    }
    if (frame.event === "step_updated") for (const frames of this.underWay.values()) frames.push(frame);
    if (frame.event !== "step_added" || !frame["step"]) return;
    /** @type {Step} */
    const step = { childCount: 0, ...frame["step"] };
    const fetched = this.underWay.get(step.parentId ?? "root");
    if (fetched) {
      fetched.push(frame);
      return;
    }
    this.note.textContent = "";
    this.place(step.parentId ?? null, frame["beforeId"] ?? null, () => this.item(step).element);
  }

  /**
   * Inserts a step where it belongs, if that level is shown.
   * @param {string | null} parentId
   * @param {string | null} before the sibling to insert before; null: last
   * @param {() => HTMLElement} element
   */
  place(parentId, before, element) {
    const parent = parentId === null ? null : this.items.get(parentId);
    if (parent) {
      parent.step.childCount = (parent.step.childCount ?? 0) + 1;
      this.paint(parent);
    }
    const group = parentId === null ? this.root : parent?.group;
    const sibling = before === null ? null : this.items.get(before)?.element;
    if (!group) return;
    const begun = parent ? parent.begun : this.loaded;
    const whole = parent ? parent.loaded : this.rootLoaded;
    // A step before a sibling that is not loaded arrives with the rest of the level.
    if (sibling?.parentElement === group) group.insertBefore(element(), sibling);
    else if (begun && (before === null || whole)) group.append(element());
  }

  /**
   * @param {Item} item
   * @param {string | null} from
   * @param {string | null} before
   */
  move(item, from, before) {
    const old = this.items.get(from ?? "");
    if (old) {
      old.step.childCount = Math.max(0, (old.step.childCount ?? 1) - 1);
      this.paint(old);
    }
    item.element.remove();
    const fetched = this.underWay.get(item.step.parentId ?? "root");
    // The pending answer may be older than this move.
    fetched?.push({ event: "step_added", step: item.step, beforeId: before, branchId: this.branchId });
    if (!fetched) this.place(item.step.parentId ?? null, before, () => item.element);
    if (item.element.isConnected) return;
    // The new parent's children are not shown yet, so the step is fetched with them.
    this.items.delete(item.step.stepId);
  }

  // -- user input

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = event.target instanceof Element ? event.target : null;
    const item = this.items.get(target?.closest("[data-id]")?.getAttribute("data-id") ?? "");
    if (!item || target?.closest("button")) return;
    this.focus(item);
    if (target?.closest(".twist") && item.step.childCount) void this.toggle(item.step.stepId, !item.open);
    else this.onOpen(item.step);
  }

  /** @param {Item} item */
  focus(item) {
    for (const one of this.root.querySelectorAll('[tabindex="0"]')) one.setAttribute("tabindex", "-1");
    item.element.tabIndex = 0;
    item.element.focus();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const target = event.target instanceof Element ? event.target.closest("[data-id]") : null;
    const item = this.items.get(target?.getAttribute("data-id") ?? "");
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const { stepId: id } = item.step;
    const visible = () => [...this.root.querySelectorAll("[data-id]")].filter((one) => one instanceof HTMLElement && one.offsetParent !== null);
    const go = (/** @type {Element | null | undefined} */ element) => {
      const to = this.items.get(element?.getAttribute("data-id") ?? "");
      if (to) this.focus(to);
    };
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const all = visible();
      go(all[all.indexOf(item.element) + (event.key === "ArrowDown" ? 1 : -1)]);
    } else if (event.key === "ArrowRight") {
      if (item.step.childCount && !item.open) void this.toggle(id, true);
      else go(item.group?.querySelector("[data-id]"));
    } else if (event.key === "ArrowLeft") {
      if (item.open) void this.toggle(id, false);
      else go(item.element.parentElement?.closest("[data-id]"));
    } else if (event.key === "Home") go(visible()[0]);
    else if (event.key === "End") go(visible().at(-1));
    else if (event.key === "Enter" || event.key === " ") this.onOpen(item.step);
    else return;
    event.preventDefault();
  }
}

/**
 * Removes the counts of children, which a step in a frame does not know.
 * @param {Step | undefined} step
 */
function withoutCount(step) {
  if (!step) return {};
  const { childCount: _count, children: _children, ...rest } = step;
  return rest;
}
