// Cost, tokens, time and success of all sessions: plots, and a table with the same numbers.

import { ApiError } from "./api.js";
import { h, svg } from "./dom.js";
import { amount, clip, duration, money } from "./format.js";
import { t } from "./l10n.js";
import { asked, cachedShare, everyDay, finishedShare, lying, standing } from "./plot.js";

/** @import { Api } from "./api.js" */
/** @import { Group } from "./shapes.js" */

/** @typedef {{ name: string, value: (group: Group) => number | null, text: (group: Group) => string, top?: number }} Measure */

const WIDTH = 320;
const HEIGHT = 110;
const ROW = 22;
const LABEL = 130;
const AGAIN_MS = 5000;
/** Groups in a plot; the table has all. */
const MOST_ROWS = 10;

/** @param {number | null} share */
const percent = (share) => (share === null ? "–" : `${Math.round(share * 100)} %`);
/** @param {Group} group */
const cost = (group) => money(group.cost, group.unpriced) || "$0";

/** @type {readonly Measure[]} */
const MEASURES = [
  { name: t("Cost"), value: (group) => group.cost, text: cost },
  { name: t("Tokens"), value: (group) => asked(group) + group.output, text: (group) => amount(asked(group) + group.output) },
  { name: t("Cache rate"), value: cachedShare, text: (group) => percent(cachedShare(group)), top: 1 },
  { name: t("Time of models"), value: (group) => group.modelMs, text: (group) => duration(group.modelMs) },
  { name: t("Finished"), value: finishedShare, text: (group) => percent(finishedShare(group)), top: 1 },
];

/** @type {readonly [string, (group: Group) => string][]} */
const COLUMNS = [
  [t("Sessions"), (group) => amount(group.sessions)],
  [t("Finished"), (group) => percent(finishedShare(group))],
  [t("Calls"), (group) => amount(group.calls)],
  [t("Input"), (group) => amount(asked(group))],
  [t("Cached"), (group) => percent(cachedShare(group))],
  [t("Output"), (group) => amount(group.output)],
  [t("Time"), (group) => duration(group.modelMs)],
  [t("Cost"), cost],
];

/** @type {readonly [string, string][]} */
const WAYS = [["day", t("Day")], ["model", t("Model")], ["agent", t("Agent")], ["folder", t("Folder")], ["user", t("User")]];
/** @type {readonly [string, string][]} */
const PERIODS = [["7", t("7 days")], ["30", t("30 days")], ["90", t("90 days")], ["", t("All time")]];

export class NumbersView {
  /**
   * @param {HTMLElement} place
   * @param {Api} api
   */
  constructor(place, api) {
    this.place = place;
    this.api = api;
    this.asked = 0;
    const choose = (/** @type {readonly [string, string][]} */ options, /** @type {string} */ chosen) =>
      h("select", { onchange: () => void this.show() }, ...options.map(([value, name]) => h("option", { value, selected: value === chosen }, name)));
    this.by = choose(WAYS, "day");
    this.period = choose(PERIODS, "30");
    this.note = h("p", { class: "note", role: "status" });
    this.plots = h("div", { class: "plots" });
    this.table = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": t("All numbers") });
    place.append(h("p", { class: "choices" }, h("label", {}, t("By"), " ", this.by), h("label", {}, t("Period"), " ", this.period)), this.note, this.plots, this.table);
  }

  get shown() {
    return !this.place.hidden;
  }

  hide() {
    this.place.hidden = true;
  }

  async show() {
    const asked = ++this.asked;
    const [by, days] = [this.by.value, this.period.value];
    this.place.hidden = false;
    this.note.textContent = t("Counting…");
    /** @type {{ groups: Group[], more: boolean }} */
    let answer;
    try {
      answer = await this.api.get("stats", { by, days, limit: by === "day" ? 400 : 100 });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (asked !== this.asked) return;
      this.note.textContent = error.message;
      setTimeout(() => asked === this.asked && !this.place.hidden && void this.show(), AGAIN_MS);
      return;
    }
    if (asked === this.asked) this.draw(by, days, answer);
  }

  /**
   * @param {string} by
   * @param {string} days
   * @param {{ groups: Group[], more: boolean }} answer
   */
  draw(by, days, { groups, more }) {
    this.note.textContent = groups.length === 0 ? t("Nothing happened in this time.") : more ? t("Only the first {0} groups are shown.", groups.length) : "";
    const daily = by === "day" ? everyDay(groups, new Date().toISOString().slice(0, 10), days ? Number(days) : null) : null;
    this.plots.replaceChildren(...(groups.length > 0 ? MEASURES.map((measure) => plot(measure, daily ?? groups.slice(0, MOST_ROWS), daily !== null)) : []));
    this.table.replaceChildren(...(groups.length > 0 ? [tableOf(groups, WAYS.find(([name]) => name === by)?.[1] ?? "")] : []));
    this.table.hidden = groups.length === 0;
  }
}

/** @param {Group} group */
const nameOf = (group) => group.key || t("unknown");

/**
 * @param {Measure} measure
 * @param {readonly Group[]} groups
 * @param {boolean} daily whether they are days in order
 */
function plot(measure, groups, daily) {
  const values = groups.map(measure.value);
  const top = measure.top === undefined ? {} : { top: measure.top };
  const most = groups[values.indexOf(Math.max(...values.map((value) => value ?? 0)))];
  const spoken = t("{0}, at most {1} ({2}). The table below has all numbers.", measure.name, most ? measure.text(most) : "–", most ? nameOf(most) : "–");
  const height = daily ? HEIGHT + 20 : groups.length * ROW;
  const bars = daily ? standing(values, { width: WIDTH, height: HEIGHT, ...top }) : lying(values, { width: WIDTH - LABEL - 70, row: ROW, ...top });
  const drawn = groups.flatMap((group, at) => {
    const bar = bars[at];
    const tip = svg("title", {}, `${nameOf(group)}: ${measure.text(group)}`);
    if (daily) return bar ? [svg("rect", { class: "bar", ...bar }, tip)] : [];
    const middle = at * ROW + ROW / 2 + 4;
    return [
      // Wide letters take more room than 19 of the others: an inner svg shows nothing beyond its width.
      svg("svg", { width: LABEL - 4, height, role: "none" }, svg("text", { x: 0, y: middle }, clip(shortOf(nameOf(group)), 19), svg("title", {}, nameOf(group)))),
      bar ? svg("rect", { class: "bar", ...bar, x: LABEL }, tip) : null,
      svg("text", { x: LABEL + (bar?.width ?? 0) + 6, y: middle, class: "value" }, measure.text(group)),
    ].filter((one) => one !== null);
  });
  const [first, last] = [groups[0], groups.at(-1)];
  const axis = daily && first && last
    ? [
        svg("path", { class: "axis", d: `M0 ${HEIGHT + 0.5}H${WIDTH}` }),
        svg("text", { x: 0, y: HEIGHT + 16 }, first.key), svg("text", { x: WIDTH, y: HEIGHT + 16, "text-anchor": "end" }, last.key),
      ]
    : [];
  return h("figure", {},
    h("figcaption", {}, h("b", {}, measure.name), " ", daily && most ? t("at most {0}", measure.text(most)) : ""),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": spoken }, ...drawn, ...axis));
}

/** Shortens a path to its last name. @param {string} name */
const shortOf = (name) => (name.startsWith("/") ? name.split("/").filter(Boolean).at(-1) ?? name : name);

/**
 * @param {readonly Group[]} groups
 * @param {string} by
 */
function tableOf(groups, by) {
  const head = h("tr", {}, h("th", { scope: "col" }, by), ...COLUMNS.map(([name]) => h("th", { scope: "col" }, name)));
  const rows = groups.map((group) => h("tr", {}, h("th", { scope: "row" }, nameOf(group)), ...COLUMNS.map(([, text]) => h("td", {}, text(group)))));
  return h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows));
}
