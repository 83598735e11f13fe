import * as vscode from "vscode";
import type { Daemon } from "../daemon/daemon";
import type { CommandInfo } from "../protocol.gen";
import type { Attachment, Place, SessionController } from "../session/controller";
import { commandRows, ownCommands, slash } from "./commands";
import { Mentions } from "./completion";
import * as context from "./context";
import { namedIn, slashOf, type Completion } from "./text";

/** A command did not do what it was asked for, and said why. */
export class Told extends Error {}

/** The host's side of the composer: completions, attachments for mentions, and commands. */
export class ComposerHost {
  private readonly mentions: Mentions;
  private started = false;

  constructor(
    private readonly daemon: Daemon,
    private readonly sessions: SessionController,
  ) {
    this.mentions = new Mentions(daemon, sessions);
  }

  /** Return completions for the typed text, or the text to show instead. */
  async complete(sign: "@" | "/", query: string, begins: boolean): Promise<{ rows: Completion[]; nothing: string }> {
    const rows = sign === "/" ? commandRows(query, await this.own()) : await this.mentions.rows(query, begins);
    return { rows, nothing: sign === "@" && rows.length === 0 ? this.mentions.nothing(query) : "" };
  }

  /**
   * Start MCP servers that do not run when a list opens, so that it can have their prompts and resources. False when
   * nothing was started: letters start none again, as one may fail each time.
   */
  async startServers(query: string): Promise<boolean> {
    if ((this.started && query) || this.daemon.state.phase === "stopped") return false;
    this.started = true;
    // In a new window, this waits for the daemon.
    return this.daemon.request("goalwright/prompt/list", { ...this.here, start: true }).then(() => true, () => false);
  }

  /** Read a mention's attachments. Throws an error with a message for the user. */
  async mention(key: string): Promise<Attachment[]> {
    const [, kind = key, about = ""] = /^(file|lines|folder|session):([^]*)$/.exec(key) ?? [];
    const { file, lines, folder, problems, selection, terminal, changes } = context;
    const readers = { file, lines, folder, problems, selection, terminal, changes, session: (id: string) => this.session(id) };
    return Object.hasOwn(readers, kind) ? [await readers[kind as keyof typeof readers](about)].flat() : [];
  }

  /** Read the attachments of a mention that was typed instead of chosen; none when it names nothing. */
  async named(key: string): Promise<Attachment[]> {
    const [, kind, about = ""] = /^(file|lines|folder):([^]*)$/.exec(key) ?? [];
    const path = kind === "lines" ? about.replace(/:[\d-]+$/, "") : about;
    return !kind || (await context.isThere(path, kind === "folder")) ? this.mention(key) : [];
  }

  /** Read mentions that have no attachments yet: the last word may be sent before it was resolved. */
  async stillNamed(text: string, attachments: readonly Attachment[]): Promise<Attachment[]> {
    const missing = namedIn(text).filter(({ key }) => {
      const [, about] = /^(?:file|lines|folder):([^]*)$/.exec(key) ?? [];
      return about !== undefined && !attachments.some(({ name }) => name === about || name.startsWith(`${about} (`));
    });
    return (await Promise.all(missing.map(({ key }) => this.named(key)))).flat();
  }

  /**
   * Run a slash command, or build its prompt. Returns undefined when there is nothing to send; `place`: the new session
   * that the command opened. Throws an error with a message for the user, or Told.
   */
  async expand(text: string, attachments: Attachment[]): Promise<{ text: string; attachments: Attachment[]; place?: Place } | undefined> {
    const typed = slashOf(text);
    const meant = typed && slash(typed.name, typed.rest, await this.own());
    if (!meant) return { text, attachments };
    if (meant.kind === "problem") throw new Error(meant.text);
    if (meant.kind === "prompt") return { text: meant.text, attachments: [...attachments, ...(meant.mention ? await this.mention(meant.mention) : [])] };
    if (meant.command === "newSession" && meant.words) {
      const begun = this.sessions.startNew();
      const { place } = this.sessions;
      await begun;
      return { text: meant.words, attachments, place };
    }
    const done = await vscode.commands.executeCommand<boolean | undefined>(`goalwright.${meant.command}`, ...(meant.words ? ["composer", meant.words] : []));
    if (done === false && meant.words) throw new Told();
    return undefined;
  }

  private async own(): Promise<CommandInfo[]> {
    if (this.daemon.state.phase !== "connected") return [];
    return ownCommands((await this.daemon.request("goalwright/prompt/list", this.here)).commands);
  }

  /** Another client may have passed MCP servers for the session. */
  private get here(): { sessionId?: string } {
    const { sessionId } = this.sessions;
    return sessionId ? { sessionId } : {};
  }

  private async session(sessionId: string): Promise<Attachment> {
    const [{ messages }, { sessions }] = await Promise.all([
      this.daemon.request("goalwright/trace/messages", { sessionId, limit: 200 }),
      this.sessions.list(50),
    ]);
    return context.conversation(sessions.find(({ trace }) => trace.traceId === sessionId)?.trace.title ?? sessionId, messages);
  }
}
