// The pane with the messages of an edge: the work that led to a result.

import { ApiError } from "./api.js";
import { h } from "./dom.js";
import { newest, placeOf } from "./newest_messages.js";
import { besideGoals, scopeOf } from "./scope.js";
import { amount, duration, endWord, money, plain, statsWords, statusWord } from "./format.js";
import { t } from "./l10n.js";

/** @import { Branch, GoalStats, SessionView, Message, MessagesQuery, Part } from "./shapes.js" */

const PAGE = 50;
/** Longer texts, in characters, are cut until the user expands them. */
const LONG = 4000;
const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/**
 * The work that the pane shows.
 * @typedef {object} Subject
 * @property {string} traceId
 * @property {string | null} goalId internal id; null: the whole session or branch
 * @property {string | null} branchId
 * @property {boolean} descendants include the messages of sub-goals
 * @property {boolean} beside of a session or branch (`goalId` is null): only messages that belong to no goal
 * @property {string} heading
 * @property {string} text
 * @property {string} status
 * @property {GoalStats | null} stats
 */

export class MessagesPane {
  /**
   * @param {HTMLElement} host
   * @param {(wanted: MessagesQuery) => Promise<{ messages: Message[], hasEarlier: boolean }>} read a page of messages; rejects with ApiError
   * @param {() => void} closed
   */
  constructor(host, read, closed) {
    this.host = host;
    this.read = read;
    this.closed = closed;
    /** @type {Subject | null} */
    this.subject = null;
    /** Sorted by sequence. @type {Message[]} */
    this.messages = [];
    /** Ids of the shown messages with their branch ids, because each branch counts on its own. @type {Set<string>} */
    this.known = new Set();
    /** Whether messages of several branches are shown, whose sequence numbers overlap. */
    this.mixed = false;
    this.list = h("ol", { class: "messages" });
    this.earlier = h("button", { type: "button", class: "earlier", hidden: true, onclick: () => void this.loadEarlier() }, t("Earlier messages"));
    this.note = h("p", { class: "note", role: "status" });
    this.facts = h("p");
    this.summary = h("p");
    /** Counts up when the subject changes, so that late answers are dropped. */
    this.generation = 0;
    this.catching = false;
    /** Whether messages arrived during a request, so that another one is needed. */
    this.again = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    // Listen on the document, because a click on an edge leaves the focus nowhere.
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.defaultPrevented || host.hidden) return;
      // In a search field with text, Escape clears the field.
      if (event.target instanceof HTMLInputElement && event.target.value && event.target.type === "search") return;
      this.close();
    });
  }

  /** @param {Subject} subject */
  async show(subject) {
    this.subject = subject;
    this.startAnew();
    this.frame(subject, [this.note, this.earlier, this.list]);
    this.note.textContent = t("Loading…");
    await this.catchUp();
  }

  startAnew() {
    this.generation += 1;
    this.catching = this.again = this.mixed = false;
    this.messages = [];
    this.known.clear();
    this.list.replaceChildren();
    this.earlier.hidden = true;
  }

  /**
   * Shows a text instead of messages, e.g. the data of a step.
   * @param {{ heading: string, text: string, status: string }} about
   * @param {readonly (Node | string)[]} content
   */
  showContent(about, content) {
    this.subject = null;
    this.startAnew();
    this.frame({ ...about, stats: null }, [h("div", { class: "content" }, ...content)]);
  }

  /**
   * @param {Pick<Subject, "heading" | "text" | "status" | "stats">} subject
   * @param {readonly Node[]} content
   */
  frame({ heading, text, status, stats }, content) {
    const close = h("button", { type: "button", class: "close", "aria-label": t("Close"), title: t("Close (Esc)"), onclick: () => this.close() }, "×");
    this.host.replaceChildren(
      h("header", {}, h("h2", {}, heading), close,
        (this.facts = h("p", { class: "facts" }, factsOf(status, stats))),
        (this.summary = h("p", { class: "summary", hidden: !text }, text))),
      h("div", { class: "scroll", tabindex: 0 }, ...content),
    );
    this.host.hidden = false;
  }

  /**
   * Updates the numbers and the result while the work continues.
   * @param {SessionView | null} state
   */
  update(state) {
    const { subject } = this;
    if (!subject || !state || state.trace.traceId !== subject.traceId) return;
    const now = nowOf(subject, state);
    if (!now) return;
    const words = factsOf(now.status, now.stats ?? subject.stats);
    if (this.facts.textContent !== words) this.facts.textContent = words;
    if (!now.text || now.text === this.summary.textContent) return;
    this.summary.textContent = now.text;
    this.summary.hidden = false;
  }

  close() {
    this.subject = null;
    this.startAnew();
    this.host.hidden = true;
    this.closed();
  }

  /**
   * Fetches soon after a new message, if it belongs to the subject.
   * @param {{ branchId: string | null, goalId: string | null }} message
   */
  touched({ branchId, goalId }) {
    const { subject } = this;
    if (!subject) return;
    // Messages of branches count as work for the goal that started them, and for the goals around it.
    const within = subject.descendants && subject.goalId !== null && isWithin(branchId, subject.branchId);
    if (!within && subject.branchId !== branchId) return;
    if (!within && subject.goalId !== null && !subject.descendants && subject.goalId !== goalId) return;
    if (subject.beside && goalId !== null) return;
    if (branchId !== subject.branchId) this.mixed = true;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      // Something else may be shown by now, and have had a message, too.
      void this.catchUp();
    }, 300);
  }

  /** Fetches messages that may have been missed, e.g. while disconnected. */
  refresh() {
    if (this.subject) void this.catchUp();
  }

  async loadEarlier() {
    const { subject, generation } = this;
    const [oldest] = this.messages;
    if (!subject || !oldest) return;
    const page = await this.answer(generation, () => this.ask(subject, oldest.sequence));
    if (!page) return;
    this.put(page.messages);
    this.earlier.hidden = !page.hasEarlier;
  }

  /** Fetches messages newer than the shown ones. One request at a time: a slow answer is not abandoned for the next one. */
  async catchUp() {
    const { subject } = this;
    if (!subject) return;
    if (this.catching) {
      this.again = true;
      return;
    }
    let { generation } = this;
    this.catching = true;
    try {
      do {
        this.again = false;
        const page = await this.newer(subject, generation);
        if (!page) return;
        if (!page.joined) {
          this.startAnew();
          this.catching = true;
          ({ generation } = this);
        }
        if (this.messages.length === 0) this.earlier.hidden = !page.hasEarlier;
        this.put(page.messages);
        if (this.messages.length === 0) this.note.textContent = t("No messages yet.");
      } while (this.again);
    } finally {
      if (generation === this.generation) this.catching = false;
    }
  }

  /**
   * @param {Subject} subject
   * @param {number} generation
   */
  newer(subject, generation) {
    // In one branch, new messages follow all known ones. With several, those of a slow branch may belong between them.
    const back = (this.mixed ? this.messages[0] : this.messages.at(-1))?.sequence ?? null;
    return this.answer(generation, () => newest((before) => this.ask(subject, before), back));
  }

  /**
   * @param {Subject} subject
   * @param {number | null} [before]
   */
  ask({ traceId, goalId, branchId, descendants, beside }, before = null) {
    // Messages that a branch inherited are work of the session or branch that it left.
    const inherited = branchId === null;
    return this.read({ sessionId: traceId, goalId, branchId, descendants, withoutGoal: beside, inherited, before, limit: PAGE });
  }

  /**
   * @template T
   * @param {number} generation
   * @param {() => Promise<T>} ask
   * @returns {Promise<T | null>} null when the request failed or is no longer wanted
   */
  async answer(generation, ask) {
    try {
      const answer = await ask();
      if (generation !== this.generation) return null;
      this.note.textContent = "";
      return answer;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (generation === this.generation) this.note.textContent = error.message;
      return null;
    }
  }

  /** @param {readonly Message[]} messages oldest first */
  put(messages) {
    const branchId = this.subject?.branchId ?? null;
    for (const one of messages) {
      const id = `${one.branchId ?? ""}/${one.messageId}`;
      if (this.known.has(id)) continue;
      const at = placeOf(this.messages, one);
      if ((one.branchId ?? null) !== branchId) this.mixed = true;
      this.list.insertBefore(messageElement(one, branchId), this.list.children[at] ?? null);
      this.messages.splice(at, 0, one);
      this.known.add(id);
    }
  }
}

/**
 * @param {string} status
 * @param {GoalStats | null} stats
 */
const factsOf = (status, stats) => [status, stats?.messageCount ? statsWords(stats) : ""].filter(Boolean).join(" · ");

/**
 * Returns the current state of the subject.
 * @param {Subject} subject
 * @param {SessionView} state
 * @returns {{ status: string, stats: GoalStats | null, text: string } | null} null when it is not known
 */
function nowOf({ goalId, branchId, descendants, beside }, { branches, goalTree }) {
  const branch = branchId === null ? null : branches[branchId];
  if (goalId === null) {
    if (!branch) return null;
    const place = branch.node ? ` · ${t("on {0}", plain(branch.node))}` : "";
    const stats = beside ? statsBeside(branch, branches, branchId) : (branch.cumulativeStats ?? null);
    return { status: `${statusWord(branch.status)}${place}`, stats, text: branch.summary ?? "" };
  }
  const goal = (branchId === null ? goalTree : branch?.goalTree)?.goals.find((one) => one.id === goalId);
  if (!goal) return null;
  const stats = descendants ? goal.cumulativeStats : goal.selfStats;
  return { status: statusWord(goal.status), stats: stats ?? null, text: goal.summary ?? goal.mergeSummary ?? "" };
}

/**
 * @param {Branch} branch
 * @param {SessionView["branches"]} branches
 * @param {string | null} branchId
 */
const statsBeside = (branch, branches, branchId) => (branch.goalTree ? besideGoals(branch, scopeOf(branch.goalTree, branches, branchId)) : null);

/**
 * @param {string | null} branchId
 * @param {string | null} around null: the main session
 */
const isWithin = (branchId, around) => branchId !== null && (around === null || branchId.startsWith(`${around}.`));

/**
 * @param {Message} message
 * @param {string | null} line those of its branches say which one they are of
 */
function messageElement(message, line) {
  const time = message.createdAt ? new Date(message.createdAt) : null;
  const facts = [
    (message.branchId ?? null) !== line ? t("branch {0}", plain(message.branchId)) : "",
    message.tokens ? t("{0} tokens", amount(message.tokens)) : "", money(message.cost, message.cost == null ? message.usage?.output : 0), duration(message.durationMs),
    time && !Number.isNaN(time.valueOf()) ? time.toLocaleTimeString() : "",
  ];
  const parts = Array.isArray(message.content) ? message.content : [];
  const tool = parts.find((part) => part.type === "tool_result")?.["name"];
  const names = { user: t("You"), assistant: t("Agent"), tool: typeof tool === "string" ? plain(tool) : t("Tool") };
  return h("li", { class: `message ${message.role}`, "data-id": message.messageId },
    h("p", { class: "who" }, h("b", {}, names[message.role] ?? message.role), h("span", {}, facts.filter(Boolean).join(" · "))),
    ...parts.map(partElement));
}

/** @param {Part} part */
function partElement(part) {
  const text = (/** @type {string} */ name) => (typeof part[name] === "string" ? part[name] : "");
  switch (part.type) {
    case "text":
      return longText("p", "text", text("text"));
    case "reasoning":
      return folded(t("Reasoning"), text("text"), "reasoning");
    case "tool_call":
      return folded(`→ ${plain(text("name"))} ${short(text("input"))}`, pretty(text("input")), "call");
    case "tool_result":
      return h("div", { class: part["isError"] === true ? "result error" : "result" },
        folded(part["isError"] === true ? t("Failed: {0}", text("title") || t("Result")) : `← ${text("title") || t("Result")}`, text("content"), "output"),
        ...images(part["images"]));
    case "file":
      return h("p", { class: "note" }, t("File: {0}", text("name")), ...images([part]));
    case "subtask":
      return folded(t("Task for {0}", text("agent")), text("prompt"), "call");
    case "command":
      return longText("p", "text", text("text"));
    case "agent":
      return h("p", { class: "note" }, t("Agent: {0}", text("agent")));
    case "note":
      return folded(t("Sent to the model"), text("text"), "reasoning");
    case "compaction":
      return h("p", { class: "note" }, t("The conversation was compacted here."));
    case "finish":
      return part["reason"] === "end_turn" || part["reason"] === "tool_use" ? null : h("p", { class: "note" }, [t("Ended: {0}", endWord(text("reason"))), text("detail")].filter(Boolean).join(" – "));
    default:
      return h("p", { class: "note" }, part.type);
  }
}

/**
 * @param {string} words
 * @param {string} text
 * @param {string} name
 */
function folded(words, text, name) {
  return text.trim() ? h("details", { class: name }, h("summary", {}, words), longText("pre", "", text)) : h("p", { class: `${name} note` }, words);
}

/**
 * @param {"p" | "pre"} tag
 * @param {string} name
 * @param {string} text
 */
function longText(tag, name, text) {
  if (text.length <= LONG) return h(tag, { class: name }, text);
  const element = h(tag, { class: name }, text.slice(0, LONG), "… ");
  element.append(h("button", { type: "button", class: "whole", onclick: () => element.replaceChildren(text) }, t("Show all {0} characters", amount(text.length))));
  return element;
}

/** @param {unknown} list */
function images(list) {
  if (!Array.isArray(list)) return [];
  return list.flatMap((one) => {
    const { mediaType: type, data, name } = one ?? {};
    if (typeof data !== "string" || !IMAGE.test(String(type)) || !BASE64.test(data)) return [];
    return [h("img", { src: `data:${type};base64,${data}`, alt: String(name ?? "image") })];
  });
}

/** @param {string} json */
function short(json) {
  const line = json.replace(/\s+/g, " ").trim();
  return line.length > 60 ? `${line.slice(0, 60)}…` : line;
}

/** @param {string} json */
export function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
