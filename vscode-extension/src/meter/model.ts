/** State of the meter: context size, usage, and budgets, which the user can set. Pure. */
import { limitOf, money, percent, readMoney, readTokens, short, tokensWord, windowWords } from "../amounts";
import type { Budget, Goal, GoalMeter, GoalTree, Meter, PermissionRequest, Usage } from "../protocol.gen";
import { goalNumbers, goalOf } from "../goals/tree";
import { t } from "../l10n";

/** Share of the way to a compaction, or of a limit, from which the bar warns. */
const NEARLY = 0.9;

/** Merge a notification, which contains only the goals that changed, into the state. */
export function merged(before: Meter | null, next: Meter): Meter {
  if (!before) return next;
  const changed = new Map(next.goals.map((goal) => [goal.goalId, goal]));
  const kept = before.goals.filter((goal) => !changed.has(goal.goalId));
  return { ...next, goals: [...kept, ...next.goals] };
}

/** Count the tokens that were sent, cached or not. */
export function sent(usage: Usage): number {
  return usage.input + usage.cacheRead + usage.cacheWrite;
}

/** Count all input and output tokens. */
export function total(usage: Usage): number {
  return sent(usage) + usage.output;
}

/** Format the share of input tokens read from the provider's cache: `83 % cache hits`; empty when nothing was sent. */
export function cacheWords(usage: Usage): string {
  const all = sent(usage);
  return all > 0 ? t("{0} cache hits", percent(usage.cacheRead / all)) : "";
}

/** Format usage: `12k tokens · $0.02 · 83 % cache hits`; empty when nothing was used. */
export function spentWords({ usage, cost }: Pick<GoalMeter, "usage" | "cost">): string {
  if (total(usage) === 0) return "";
  return [tokensWord(total(usage)), cost > 0 || usage.unpriced > 0 ? money(cost, usage.unpriced) : "", cacheWords(usage)].filter(Boolean).join(" · ");
}

/** Return the texts of the line above the composer. */
export function line(meter: Meter, tree: GoalTree) {
  const { contextTokens, usage } = meter;
  const limit = meter.compactAt || meter.contextWindow;
  const filled = limit > 0 ? Math.min(1, contextTokens / limit) : 0;
  return {
    /** Context size: `42k of 150k`. */
    context: limit > 0 ? t("{0} of {1}", short(contextTokens), short(limit)) : short(contextTokens),
    /** Progress to the next compaction, 0 … 1. */
    filled,
    /** True when the next compaction is near. */
    near: filled >= NEARLY,
    /** The reason to highlight the cost; empty without one. */
    costly: costlyWords(meter, tree),
    cost: costWords(meter),
    cache: cacheWords(usage),
    /** Text for screen readers. */
    spoken: t("About {0} tokens of context; compacted at {1}", short(contextTokens), short(limit)),
  };
}

function costlyWords(meter: Meter, tree: GoalTree): string {
  if (budgets(meter, tree).some((one) => one.near)) return t("the budget is nearly used up");
  const { cost, warningUsd = 0 } = meter;
  return warningUsd > 0 && cost >= warningUsd ? t("no budget is set") : "";
}

/** Describe the cost warning that replaces a missing limit; empty if warnings are off. */
export function warningWords({ warningUsd = 0 }: Meter): string {
  return warningUsd > 0 ? t("a warning every {0}", limitOf(warningUsd)) : "";
}

/** Format the cost: `$0.12`; `≥ $0.12` when some calls have no known price; empty when nothing was spent. */
function costWords({ cost, costKnown, usage }: Meter): string {
  if (cost <= 0 && (costKnown || total(usage) === 0)) return "";
  return money(cost, costKnown ? 0 : 1);
}

export interface Limit {
  key: keyof Budget;
  /** Subject of the limit: `This session`, `Goal 2.1`. */
  what: string;
  /** Usage: `$1.23 of $5`. */
  words: string;
  used: number;
  limit: number;
  near: boolean;
}

/** Return the budgets that are set, with their usage. */
export function budgets(meter: Meter, tree: GoalTree): Limit[] {
  const { budget } = meter;
  const goal = currentGoal(meter, tree);
  const found: Limit[] = [];
  const add = (key: keyof Budget, what: string, used: number, write: (value: number) => string): void => {
    const limit = budget[key];
    if (limit === null || limit === undefined) return;
    const inMoney = key.endsWith("Usd");
    const words = t("{0} of {1}", write(used), inMoney ? limitOf(limit) : tokensWord(limit));
    found.push({ key, what, words, used, limit, near: used >= limit * NEARLY });
  };
  add("sessionUsd", t("This session"), meter.cost, money);
  add("sessionTokens", t("This session"), total(meter.usage), short);
  const name = goal ? t("Goal {0}", goal.number ?? goal.goal.description) : t("Each goal");
  add("goalUsd", name, goal?.meter?.cost ?? 0, money);
  add("goalTokens", name, goal?.meter ? total(goal.meter.usage) : 0, short);
  return found;
}

/** Return the goal in focus with its usage. */
function currentGoal(
  meter: Meter,
  tree: GoalTree,
): { goal: Goal; number: string | undefined; meter: GoalMeter | undefined } | undefined {
  const goal = goalOf(tree, tree.currentId);
  if (!goal) return undefined;
  return { goal, number: goalNumbers(tree).get(goal.id), meter: meter.goals.find((one) => one.goalId === goal.id) };
}

/** Return the details of the meter: labels and texts. */
export function details(meter: Meter, tree: GoalTree): { label: string; words: string[] }[] {
  const { usage } = meter;
  const rows = [
    {
      label: t("Context"),
      words: [
        t("{0} used", short(meter.contextTokens)),
        ...(meter.contextWindow > 0 ? [windowWords(meter.contextWindow, meter.windowAssumed)] : []),
        ...(meter.compactAt > 0 ? [t("auto-compacts at {0}", short(meter.compactAt))] : []),
      ],
    },
    {
      label: t("Tokens"),
      words: [
        t("{0} in", short(sent(usage))),
        ...(usage.cacheRead > 0 ? [t("{0} from the cache", short(usage.cacheRead))] : []),
        ...(usage.cacheWrite > 0 ? [t("{0} written to the cache", short(usage.cacheWrite))] : []),
        t("{0} out", short(usage.output)),
      ],
    },
    {
      label: t("Cost"),
      words: meter.costKnown
        ? [money(meter.cost)]
        : [meter.cost > 0 ? t("at least {0}", money(meter.cost)) : t("not known"), t("the model's price is not known")],
    },
  ];
  if (tree.goals.length > 0 && total(meter.withoutGoal) > 0) {
    rows.push({ label: t("Without a goal"), words: [spentWords({ usage: meter.withoutGoal, cost: meter.withoutGoalCost })] });
  }
  const goal = currentGoal(meter, tree);
  return goal ? [...rows, goalDetails(goal)] : rows;
}

function goalDetails({ number, meter }: NonNullable<ReturnType<typeof currentGoal>>): { label: string; words: string[] } {
  const held = meter?.contextTokens ?? 0;
  const spent = meter ? spentWords(meter) : "";
  return {
    label: number ? t("Goal {0}", number) : t("Goal"),
    words: [spent || t("nothing yet"), ...(held > 0 ? [t("{0} of the context", short(held))] : [])],
  };
}

/** Return true for the request of a run that used up its budget, as opposed to a tool's request. */
export function isBudget({ permission }: Pick<PermissionRequest, "permission">): boolean {
  return permission === "budget";
}

const KINDS: readonly { key: keyof Budget; label: string }[] = [
  { key: "sessionUsd", label: t("Cost limit for this session") },
  { key: "sessionTokens", label: t("Token limit for this session") },
  { key: "goalUsd", label: t("Cost limit per goal") },
  { key: "goalTokens", label: t("Token limit per goal") },
];
const NO_BUDGET: Budget = { sessionUsd: null, sessionTokens: null, goalUsd: null, goalTokens: null };

/** Return the four limits with their current values, also as input text in `value`, and the usage so far in `detail`. */
export function choices(meter: Meter | null, tree: GoalTree) {
  const goal = meter && currentGoal(meter, tree);
  const name = goal ? t("Goal {0}", goal.number ?? goal.goal.description) : "";
  return KINDS.map(({ key, label }) => {
    const limit = meter?.budget[key] ?? null;
    const spent = key.startsWith("session") ? meter : goal?.meter;
    const used = spent ? amountOf(key, spent.cost, total(spent.usage)) : "";
    const who = key.startsWith("session") ? t("Used so far") : name;
    return {
      key,
      label,
      ...limitWords(key, limit),
      detail: used && who ? t("{0}: {1}", who, used) : "",
    };
  });
}

function amountOf(key: keyof Budget, cost: number, tokens: number): string {
  return isMoney(key) ? money(cost) : tokensWord(tokens);
}

function limitWords(key: keyof Budget, limit: number | null): { description: string; value: string } {
  if (limit === null) return { description: t("no limit"), value: "" };
  if (isMoney(key)) return { description: limitOf(limit), value: limitOf(limit) };
  // Enter must not change the limit, so a short form that is rounded is none for the input.
  const words = short(limit);
  return { description: tokensWord(limit), value: readTokens(words) === limit ? words : String(limit) };
}

function isMoney(key: keyof Budget): boolean {
  return key.endsWith("Usd");
}

/** Return an error for an invalid amount; undefined when it is valid. An empty text removes the limit. */
export function complaint(key: keyof Budget, text: string): string | undefined {
  if (text.trim() === "" || amount(key, text) !== undefined) return undefined;
  return isMoney(key)
    ? t("An amount in US dollars, for example 2.50. Leave it empty for no limit.")
    : t("A number of tokens, for example 200000, 200k or 1.5M. Leave it empty for no limit.");
}

/** Return the limits with one of them changed; an empty text removes it. */
export function changed(before: Budget | undefined, key: keyof Budget, text: string): Budget {
  return { ...NO_BUDGET, ...before, [key]: amount(key, text) ?? null };
}

function amount(key: keyof Budget, text: string): number | undefined {
  return isMoney(key) ? readMoney(text) : readTokens(text);
}
