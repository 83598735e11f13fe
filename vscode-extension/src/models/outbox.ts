import type { AnswerEnding, AnswerPiece, ModelAnswerResult } from "../protocol.gen";

/** Characters that may wait while a message is on its way. */
const MOST_WAITING = 1_000_000;

/** Sends an answer to the daemon piece by piece, each message after the reply to the one before; what comes meanwhile is sent together. */
export class Outbox {
  private waiting: AnswerPiece[] = [];
  private size = 0;
  private sending: Promise<void> | undefined;
  private open = true;

  /** `unwanted` is called when the daemon wants no more, or has gone. */
  constructor(
    private readonly send: (pieces: AnswerPiece[], ending: AnswerEnding | null) => Promise<ModelAnswerResult>,
    private readonly unwanted: () => void,
  ) {}

  get wanted(): boolean {
    return this.open;
  }

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
    if (this.open) await this.deliver([], ending);
  }

  private async pump(): Promise<void> {
    // In the next turn of the loop: the parts that VS Code delivers together are one message.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.open && this.waiting.length > 0) {
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
    this.open = false;
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
