/** Formats of models, prices and keys. Pure. */

import { short, windowWords } from "../amounts";
import { t } from "../l10n";
import { type ModelProvider, type OfferedModel, PROVIDER_NAMES } from "../protocol.gen";

/** Format a model's properties: `1M window · $2 in / $10 out per 1M tokens`. */
export function modelFacts({ window, windowAssumed, inputPrice, outputPrice }: Pick<OfferedModel, "window" | "windowAssumed" | "inputPrice" | "outputPrice">): string {
  const size = windowWords(window, windowAssumed);
  if (inputPrice === null || outputPrice === null) return size;
  if (inputPrice === 0 && outputPrice === 0) return `${size} · ${t("free")}`;
  return `${size} · ${t("{0} in / {1} out per 1M tokens", price(inputPrice), price(outputPrice))}`;
}

function price(dollars: number): string {
  return `$${Number(dollars.toFixed(3))}`;
}

/** Formats of the providers' keys, the most specific first. */
const SHAPES: readonly (readonly [keyof typeof PROVIDER_NAMES, RegExp])[] = [
  ["anthropic", /^sk-ant-[\w-]{20,}$/],
  ["openrouter", /^sk-or-[\w-]{20,}$/],
  ["gemini", /^AIza[\w-]{30,}$/],
  ["openai", /^sk-(?!ant-|or-)[\w-]{20,}$/],
];

/** Return the provider of a key by its format; undefined if unknown. */
export function providerOfKey(key: string): keyof typeof PROVIDER_NAMES | undefined {
  return SHAPES.find(([, shape]) => shape.test(key))?.[0];
}

/** Return an error for an invalid key; undefined when it may be valid. */
export function keyProblem(provider: Pick<ModelProvider, "id" | "name">, key: string): string | undefined {
  if (/\s/.test(key.trim())) return t("A key cannot contain spaces.");
  const other = providerOfKey(key.trim());
  if (other && other !== provider.id && SHAPES.some(([id]) => id === provider.id)) return t("This looks like a key of {0}.", PROVIDER_NAMES[other]);
  return undefined;
}

/** Return true if a change of the field pasted a complete key of this provider, so that Enter is not needed. */
export function pastedKey(provider: string, before: string, now: string): boolean {
  return now.length - before.length >= 20 && providerOfKey(now.trim()) === provider;
}

/** An address of each provider that has none of its own. */
export const EXAMPLE_URLS: Readonly<Record<string, string>> = {
  azure: "https://NAME.openai.azure.com",
  custom: "http://localhost:8000/v1",
};

/** Return an error for an invalid web address; undefined when it is valid. */
export function addressProblem(text: string): string | undefined {
  try {
    if (["http:", "https:"].includes(new URL(text.trim()).protocol)) return undefined;
  } catch {
    // The text cannot be parsed as a URL.
  }
  return t("Enter a web address, for example http://localhost:8000/v1.");
}

/** Levels of thinking in the model picker, in tokens. */
export const THINKING: readonly { tokens: number; label: string; detail: string }[] = [
  { tokens: 0, label: t("Off"), detail: t("Answers immediately") },
  { tokens: 2_000, label: t("Low"), detail: t("Up to 2,000 tokens before each answer") },
  { tokens: 8_000, label: t("Medium"), detail: t("Up to 8,000 tokens before each answer") },
  { tokens: 24_000, label: t("High"), detail: t("Up to 24,000 tokens before each answer") },
];

/** Return the level's name for a number of tokens, or the number itself. */
export function thinkingWord(tokens: number): string {
  return THINKING.find((level) => level.tokens === tokens)?.label ?? t("{0} tokens", short(tokens));
}
