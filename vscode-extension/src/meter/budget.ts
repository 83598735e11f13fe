/** Budgets of a session, as the user sets them. Pure. */
import { limitOf, money, readMoney, readTokens, short, tokensWord } from "../amounts";
import type { Budget, GoalTree, Meter } from "../protocol.gen";
import { currentGoal, total } from "./model";
import { t } from "../l10n";

export interface BudgetChoice {
  key: keyof Budget;
  label: string;
  /** The current limit. */
  description: string;
  /** The limit as input text; empty when there is none. */
  value: string;
  /** The amount used so far. */
  detail: string;
}

const KINDS: readonly { key: keyof Budget; label: string }[] = [
  { key: "sessionUsd", label: t("Cost limit for this session") },
  { key: "sessionTokens", label: t("Token limit for this session") },
  { key: "goalUsd", label: t("Cost limit per goal") },
  { key: "goalTokens", label: t("Token limit per goal") },
];
const NO_BUDGET: Budget = { sessionUsd: null, sessionTokens: null, goalUsd: null, goalTokens: null };

/** Return the four limits with their current values and usage. */
export function choices(meter: Meter | null, tree: GoalTree): BudgetChoice[] {
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
  return isMoney(key) ? { description: limitOf(limit), value: limitOf(limit) } : { description: tokensWord(limit), value: short(limit) };
}

export function isMoney(key: keyof Budget): boolean {
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
