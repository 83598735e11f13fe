import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import type { Attachment, SessionController } from "../session/controller";
import { ownPrompts, commandRows, slash } from "./commands";
import { Mentions } from "./completion";
import * as context from "./context";
import { namedIn, slashOf, type Completion } from "./text";

/** The host's side of the composer: what completes a name, what is attached for it, and what a command does. */
export class ComposerHost {
  private readonly mentions: Mentions;

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
  ) {
    this.mentions = new Mentions(daemon, sessions);
  }

  /** Rows for what is being typed, or what to say in place of them. */
  async complete(sign: "@" | "/", query: string, begins: boolean): Promise<{ rows: Completion[]; nothing: string }> {
    const rows = sign === "/" ? commandRows(query, await ownPrompts()) : await this.mentions.rows(query, begins);
    return { rows, nothing: sign === "@" && rows.length === 0 ? this.mentions.nothing(query) : "" };
  }

  /** What a mention attaches. Throws what to tell the user. */
  async mention(key: string): Promise<Attachment[]> {
    const [, kind = key, about = ""] = /^(file|lines|folder|session):([^]*)$/.exec(key) ?? [];
    switch (kind) {
      case "file":
        return context.file(about);
      case "lines":
        return [await context.lines(about)];
      case "folder":
        return [await context.folder(about)];
      case "session":
        return [await this.session(about)];
      case "problems":
        return [context.problems()];
      case "selection":
        return [context.selection()];
      case "terminal":
        return [await context.terminal()];
      case "changes":
        return [await context.changes()];
      default:
        return [];
    }
  }

  /** What a mention attaches that was written and not chosen from the list: a name of nothing attaches nothing. */
  async named(key: string): Promise<Attachment[]> {
    const [, kind, about = ""] = /^(file|lines|folder):([^]*)$/.exec(key) ?? [];
    const path = kind === "lines" ? about.replace(/:[\d-]+$/, "") : about;
    return !kind || (await context.isThere(path, kind === "folder")) ? this.mention(key) : [];
  }

  /** What a text names and its attachments do not have yet: the last word is sent before anybody has looked at it. */
  async stillNamed(text: string, attachments: readonly Attachment[]): Promise<Attachment[]> {
    const missing = namedIn(text).filter(({ key }) => {
      const [, about] = /^(?:file|lines|folder):([^]*)$/.exec(key) ?? [];
      return about !== undefined && !attachments.some(({ name }) => name === about || name.startsWith(`${about} (`));
    });
    return (await Promise.all(missing.map(({ key }) => this.named(key)))).flat();
  }

  /**
   * Runs a command that was sent, or makes the prompt that it stands for. Undefined: it is done, and there is nothing to
   * send. Throws what to tell the user.
   */
  async expand(text: string, attachments: Attachment[]): Promise<{ text: string; attachments: Attachment[] } | undefined> {
    const typed = slashOf(text);
    const meant = typed && slash(typed.name, typed.rest, await ownPrompts());
    if (!meant) return { text, attachments };
    if (meant.kind === "problem") throw new Error(meant.text);
    if (meant.kind === "prompt") return { text: meant.text, attachments: [...attachments, ...(meant.mention ? await this.mention(meant.mention) : [])] };
    await vscode.commands.executeCommand(`goalwright.${meant.command}`);
    return meant.command === "newSession" && meant.words ? { text: meant.words, attachments } : undefined;
  }

  private async session(sessionId: string): Promise<Attachment> {
    const [{ messages }, { sessions }] = await Promise.all([
      this.daemon.request("goalwright/trace/messages", { sessionId, limit: 200 }),
      this.sessions.list(50),
    ]);
    return context.conversation(sessions.find(({ trace }) => trace.traceId === sessionId)?.trace.title ?? sessionId, messages);
  }
}
