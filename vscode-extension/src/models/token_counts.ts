import type { LanguageModelChat } from "vscode";

/** Counting is a help, not worth a wait. */
const PATIENCE_MS = 2_000;
/** New messages up to which each is counted alone. */
const FEW = 8;

type Counter = Pick<LanguageModelChat, "id" | "vendor" | "countTokens">;

/** Counts tokens with a model's own tokenizer. A conversation grows at its end, so only what is new is counted. */
export class TokenCounts {
  private model = "";
  private texts: readonly string[] = [];
  private tokens: readonly number[] = [];

  /** Tokens of a text; null when the model does not tell in time. */
  async of(model: Counter, text: string): Promise<number | null> {
    if (!text) return 0;
    try {
      const counted = await inTime(model.countTokens(text));
      return counted !== undefined && Number.isFinite(counted) && counted >= 0 ? Math.round(counted) : null;
    } catch {
      return null;
    }
  }

  /** Tokens of a prompt of several texts; null when the model does not tell in time. */
  async ofPrompt(model: Counter, texts: readonly string[]): Promise<number | null> {
    const name = `${model.vendor}/${model.id}`;
    const [before, known] = name === this.model ? [this.texts, this.tokens] : [[], []];
    let same = 0;
    while (same < texts.length && texts[same] === before[same]) same++;
    const fresh = texts.slice(same);
    const counted =
      fresh.length <= FEW
        ? await Promise.all(fresh.map((text) => this.of(model, text)))
        : [await this.of(model, fresh.join("\n")), ...fresh.slice(1).map(() => 0)];
    const tokens = [...known.slice(0, same), ...counted];
    if (!tokens.every((count) => count !== null)) return null;
    [this.model, this.texts, this.tokens] = [name, texts, tokens];
    return tokens.reduce((sum, count) => sum + count, 0);
  }
}

async function inTime(counting: Thenable<number>): Promise<number | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), PATIENCE_MS);
  });
  try {
    return await Promise.race([counting, late]);
  } finally {
    clearTimeout(timer);
  }
}
