import type * as vscode from "vscode";
import type { Daemon } from "../../src/daemon/daemon";
import { ShownSessions } from "../../src/daemon/shown";
import { SessionController } from "../../src/session/controller";
import { EventEmitter } from "./vscode";
import { type event, loaded, session } from "./protocol";

type Answer = (params: Record<string, unknown>) => unknown;

/** A daemon that answers by a table and says what it was asked. */
export class FakeDaemon {
  readonly updates = new EventEmitter<unknown>();
  readonly deltas = new EventEmitter<unknown>();
  readonly states = new EventEmitter<unknown>();
  readonly onUpdate = this.updates.event;
  readonly onDelta = this.deltas.event;
  readonly meters = new EventEmitter<unknown>();
  readonly onMeter = this.meters.event;
  readonly onDidChangeState = this.states.event;
  readonly state = { phase: "connected" };
  readonly asked: [string, Record<string, unknown>][] = [];
  /** Sessions to which this window is subscribed. */
  readonly subscribed = new Set<string>();
  private readonly shown = new ShownSessions((sessionId) => this.subscribed.delete(sessionId));
  answers: Record<string, Answer> = {
    "session/load": ({ sessionId }) => loaded({ session: named(String(sessionId)) }),
    "session/new": () => ({ session: named("s1") }),
    "session/prompt": ({ promptId }) => ({ promptId, stopReason: "end_turn", detail: "", removed: false }),
    "permission/reply": () => ({ accepted: true, by: "" }),
  };

  connect(): Promise<void> {
    return Promise.resolve();
  }

  async request(method: string, params: Record<string, unknown>): Promise<unknown> {
    const name = method.replace("goalwright/", "");
    this.asked.push([name, params]);
    if (name !== "session/load") return this.answers[name]?.(params);
    const sessionId = String(params["sessionId"]);
    try {
      const loaded = await this.answers[name]?.(params);
      this.subscribed.add(sessionId);
      return loaded;
    } finally {
      this.shown.settle(sessionId);
    }
  }

  show(view: object, sessionIds: readonly (string | undefined)[]): void {
    this.shown.set(view, sessionIds);
  }

  tell(update: ReturnType<typeof event>, sessionId = "s1"): void {
    this.updates.fire({ sessionId, ...update });
  }
}

export function named(traceId: string): ReturnType<typeof session> {
  const info = session();
  return { ...info, trace: { ...info.trace, traceId } };
}

export class FakeMemory {
  readonly values = new Map<string, unknown>();
  get = (key: string, otherwise?: unknown): unknown => this.values.get(key) ?? otherwise;
  update = (key: string, value: unknown): Promise<void> => {
    this.values.set(key, value);
    return Promise.resolve();
  };
}

export const log = { debug() {}, warn() {}, info() {}, error() {} } as unknown as vscode.LogOutputChannel;

export function make(): { daemon: FakeDaemon; memory: FakeMemory; sessions: SessionController } {
  const daemon = new FakeDaemon();
  const memory = new FakeMemory();
  const sessions = new SessionController(daemon as unknown as Daemon, memory as unknown as vscode.Memento, log);
  return { daemon, memory, sessions };
}

export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
