/** Limits of a session, as a person sets them. Pure. */
import { limitOf, money, readMoney, readTokens, short } from "../amounts";
import type { Budget, GoalTree, Meter } from "../protocol.gen";
import { currentGoal, total } from "./model";

export interface BudgetChoice {
  key: keyof Budget;
  label: string;
  /** The limit now. */
  description: string;
  /** What has been used of it. */
  detail: string;
}

const KINDS: readonly { key: keyof Budget; label: string }[] = [
  { key: "sessionUsd", label: "Money for this session" },
  { key: "sessionTokens", label: "Tokens for this session" },
  { key: "goalUsd", label: "Money for each goal" },
  { key: "goalTokens", label: "Tokens for each goal" },
];
const NO_BUDGET: Budget = { sessionUsd: null, sessionTokens: null, goalUsd: null, goalTokens: null };

/** The four limits, with what they are and what was used. */
export function choices(meter: Meter | null, tree: GoalTree): BudgetChoice[] {
  const goal = meter && currentGoal(meter, tree);
  const name = goal ? `Goal ${goal.number ?? goal.goal.description}` : "";
  return KINDS.map(({ key, label }) => {
    const limit = meter?.budget[key] ?? null;
    const spent = key.startsWith("session") ? meter : goal?.meter;
    const used = spent ? (isMoney(key) ? money(spent.cost) : `${short(total(spent.usage))} tokens`) : "";
    const who = key.startsWith("session") ? "Used so far" : name;
    return {
      key,
      label,
      description: limit === null ? "no limit" : isMoney(key) ? limitOf(limit) : `${short(limit)} tokens`,
      detail: used && who ? `${who}: ${used}` : "",
    };
  });
}

export function isMoney(key: keyof Budget): boolean {
  return key.endsWith("Usd");
}

/** What is wrong with an amount; undefined when nothing is. Nothing at all takes the limit away. */
export function complaint(key: keyof Budget, text: string): string | undefined {
  if (text.trim() === "" || amount(key, text) !== undefined) return undefined;
  return isMoney(key)
    ? "An amount in US dollars, for example 2.50. Leave it empty for no limit."
    : "A number of tokens, for example 200000, 200k or 1.5M. Leave it empty for no limit.";
}

/** The limits with one of them changed; an empty text takes it away. */
export function changed(before: Budget | undefined, key: keyof Budget, text: string): Budget {
  return { ...NO_BUDGET, ...before, [key]: amount(key, text) ?? null };
}

function amount(key: keyof Budget, text: string): number | undefined {
  return isMoney(key) ? readMoney(text) : readTokens(text);
}
