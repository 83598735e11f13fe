import * as vscode from "vscode";
import { t } from "../l10n";
import type { AnswerEnding, AnswerPiece, EditorChat, EditorModelsResult, ModelAnswerParams, ModelAnswerResult } from "../protocol.gen";
import { textOf, toEnding, toMessages, toPiece, toTools, type WireMessage, type WireTool } from "./language_model_wire";

/** Send more of an answer to the daemon that asked for it. Rejects when its connection has closed. */
export type SendAnswer = (params: ModelAnswerParams) => Promise<ModelAnswerResult>;

/** For how long after the start of VS Code a missing model is waited for: its extension may still be starting. */
const STARTING_MS = 60_000;
const PATIENCE_MS = 10_000;
/** VS Code's code for a call that the user did not allow. */
const REFUSED = "NoPermissions";

/** `capabilities` of a model: VS Code has it, its stable types do not. */
type Capable = vscode.LanguageModelChat & { capabilities?: { supportsToolCalling?: boolean; supportsImageToText?: boolean } };

/** Answers the daemon's calls with the language models that other extensions offer in this window. */
export class LanguageModels implements vscode.Disposable {
  private readonly running = new Map<string, vscode.CancellationTokenSource>();
  private readonly counts = new TokenCounts();
  private readonly since = Date.now();
  /** The question of VS Code whether Goalwright may use a model, while it stands. */
  private consent: Promise<unknown> = Promise.resolve();

  constructor(private readonly access: vscode.LanguageModelAccessInformation) {}

  /** Handle `goalwright/editor/models`. */
  async list(): Promise<EditorModelsResult> {
    const models: Capable[] = await vscode.lm.selectChatModels();
    return {
      models: models.map(({ vendor, id, name, maxInputTokens, capabilities }) => ({
        vendor, id, name, maxInputTokens: Number.isSafeInteger(maxInputTokens) ? maxInputTokens : 0, tools: capabilities?.supportsToolCalling ?? null,
      })),
    };
  }

  /** Handle `goalwright/editor/chat`: send the answer of a model by `send`. Never rejects. */
  async chat(asked: EditorChat, send: SendAnswer): Promise<void> {
    const { chatId } = asked;
    const source = new vscode.CancellationTokenSource();
    this.running.set(chatId, source);
    const outbox = new Outbox((pieces, ending) => send({ chatId, pieces, ending }), () => source.cancel());
    try {
      await this.answer(asked, outbox, source.token);
    } catch (error) {
      // A canceled answer has nobody who wants to know how it ended.
      if (!source.token.isCancellationRequested) await outbox.end(toEnding(error));
    } finally {
      this.running.delete(chatId);
      source.dispose();
    }
  }

  /** Handle `goalwright/editor/chatCancel`. */
  cancel(chatId: string): void {
    this.running.get(chatId)?.cancel();
  }

  /** Cancel all answers, because the daemon has gone. */
  cancelAll(): void {
    for (const source of this.running.values()) source.cancel();
  }

  dispose(): void {
    this.cancelAll();
  }

  private async answer(asked: EditorChat, outbox: Outbox, token: vscode.CancellationToken): Promise<void> {
    const model = await this.find(asked.model);
    const wire = asked.messages as unknown as WireMessage[];
    const tools = asked.tools as unknown as WireTool[];
    const messages = toMessages(wire, model.capabilities?.supportsImageToText !== false);
    const justification = t("You chose this model for Goalwright.");
    const response = await this.allowed(model, () => model.sendRequest(messages, { justification, tools: toTools(tools) }, token));
    const input = this.counts.ofPrompt(model, [JSON.stringify(tools), ...wire.map(textOf)]);
    let said = "";
    for await (const part of response.stream) {
      const piece = toPiece(part);
      if (!piece) continue;
      said += (piece.text ?? "") + (piece.reasoning ?? "") + (piece.callInput ?? "");
      await outbox.add(piece);
      if (!outbox.wanted) return;
    }
    if (token.isCancellationRequested) return;
    const output = this.counts.of(model, said);
    await outbox.end({ inputTokens: await input, outputTokens: await output });
  }

  /** Return the model of a name. Throws a LanguageModelError when there is none. */
  private async find(name: string): Promise<Capable> {
    const vendor = name.slice(0, name.indexOf("/"));
    const look = async (): Promise<Capable | undefined> => (await vscode.lm.selectChatModels({ vendor })).find((one) => `${one.vendor}/${one.id}` === name);
    let found = await look();
    const until = Math.min(Date.now() + PATIENCE_MS, this.since + STARTING_MS);
    while (!found && Date.now() < until) {
      await changed(until - Date.now());
      found = await look();
    }
    if (!found) throw vscode.LanguageModelError.NotFound(name);
    return found;
  }

  /** Make a call. Where VS Code will ask the user for permission, calls wait for one another and share a refusal. */
  private async allowed<T>(model: vscode.LanguageModelChat, call: () => Thenable<T>): Promise<T> {
    if (this.access.canSendRequest(model) === true) return call();
    // Another failure, for example because that call was canceled, says nothing about this one.
    const turn = this.consent.then(call, (error: unknown) => {
      if ((error as { code?: unknown } | undefined)?.code === REFUSED) throw error;
      return call();
    });
    this.consent = turn;
    try {
      return await turn;
    } finally {
      if (this.consent === turn) this.consent = Promise.resolve();
    }
  }
}

/** Resolve when the set of models changes, at the latest after some milliseconds. */
function changed(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      listener.dispose();
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    const listener = vscode.lm.onDidChangeChatModels(done);
  });
}

/** Characters that may wait while a message is on its way. */
const MOST_WAITING = 1_000_000;

/** Sends an answer to the daemon piece by piece, each message after the reply to the one before; what comes meanwhile is sent together. */
export class Outbox {
  private waiting: AnswerPiece[] = [];
  private size = 0;
  private sending: Promise<void> | undefined;
  /** False when the daemon wants no more, or has gone. */
  wanted = true;

  /** `unwanted` is called when the daemon wants no more, or has gone. */
  constructor(
    private readonly send: (pieces: AnswerPiece[], ending: AnswerEnding | null) => Promise<ModelAnswerResult>,
    private readonly unwanted: () => void,
  ) {}

  /** Send a piece soon. Resolves when there is room for more. */
  async add(piece: AnswerPiece): Promise<void> {
    for (const part of cut(piece)) {
      this.put(part);
      this.sending ??= this.pump();
      if (this.size > MOST_WAITING) await this.sending;
    }
  }

  /** Send the rest and the ending. */
  async end(ending: AnswerEnding): Promise<void> {
    await this.sending;
    if (this.wanted) await this.deliver([], ending);
  }

  private async pump(): Promise<void> {
    // In the next turn of the loop: the parts that VS Code delivers together are one message.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.wanted && this.waiting.length > 0) {
      const pieces = this.waiting;
      this.waiting = [];
      this.size = 0;
      await this.deliver(pieces, null);
    }
    this.sending = undefined;
  }

  private async deliver(pieces: AnswerPiece[], ending: AnswerEnding | null): Promise<void> {
    try {
      if ((await this.send(pieces, ending)).wanted || ending) return;
    } catch (error) {
      // It has gone, or rejects the message, and would wait for the next one.
      void this.send([], { error: "unknown", message: String(error) }).catch(() => undefined);
    }
    this.wanted = false;
    this.unwanted();
  }

  private put(piece: AnswerPiece): void {
    const last = this.waiting.at(-1);
    this.size += length(piece);
    if (last?.text && piece.text) last.text += piece.text;
    else if (last?.reasoning && piece.reasoning) last.reasoning += piece.reasoning;
    else this.waiting.push({ ...piece });
  }
}

function length({ text = "", reasoning = "", callInput = "" }: AnswerPiece): number {
  return text.length + reasoning.length + callInput.length;
}

/** Cut a long text in parts that a message may have. */
function* cut(piece: AnswerPiece): Generator<AnswerPiece> {
  const kind = piece.text ? "text" : "reasoning";
  const text = piece[kind];
  if (!text || text.length <= MOST_WAITING) yield piece;
  else for (let at = 0; at < text.length; at += MOST_WAITING) yield { [kind]: text.slice(at, at + MOST_WAITING) };
}

/** Counting is a help, not worth a wait. */
const COUNTING_MS = 2_000;
/** New messages up to which each is counted alone. */
const FEW = 8;

type Counter = Pick<vscode.LanguageModelChat, "id" | "vendor" | "countTokens">;

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
    timer = setTimeout(() => resolve(undefined), COUNTING_MS);
  });
  try {
    return await Promise.race([counting, late]);
  } finally {
    clearTimeout(timer);
  }
}
