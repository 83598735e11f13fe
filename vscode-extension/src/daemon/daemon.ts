import * as vscode from "vscode";
import type { DaemonStatus, SessionLoadParams } from "../protocol.gen";
import { Connection, type Emitters, type Method, type Params, type Result, type Surroundings } from "./connection";
import { backoff, launch, MAX_ATTEMPTS, stopByForce, wasStopped, type Endpoint } from "./launch";
import { asProblem, Problem, stateText } from "./problems";
import { ShownSessions } from "./shown";
import { t } from "../l10n";

export type DaemonState =
  | { phase: "idle" }
  | { phase: "noFolder" }
  | { phase: "starting" }
  | { phase: "connected"; status: DaemonStatus }
  | { phase: "reconnecting" }
  | { phase: "stopped" }
  | { phase: "failed"; problem: Problem };

const STOP_PATIENCE_MS = 5_000;
const SUCCESSOR_POLL_MS = 500;
const SUCCESSOR_POLLS = 20;

/**
 * The daemon of this window's folder. It is found or started when first needed, and reconnected when the connection
 * breaks. Concurrent attempts to connect share one attempt.
 */
export class Daemon implements vscode.Disposable {
  private readonly stateChanged = new vscode.EventEmitter<DaemonState>();
  private readonly emitters: Emitters = {
    "goalwright/session/update": new vscode.EventEmitter(),
    "goalwright/session/delta": new vscode.EventEmitter(),
    "goalwright/session/meter": new vscode.EventEmitter(),
    "goalwright/sessions/activity": new vscode.EventEmitter(),
  };
  readonly onDidChangeState = this.stateChanged.event;
  readonly onUpdate = this.emitters["goalwright/session/update"].event;
  readonly onDelta = this.emitters["goalwright/session/delta"].event;
  readonly onMeter = this.emitters["goalwright/session/meter"].event;
  /** Fires when the activity of any of the daemon's sessions changes. */
  readonly onActivity = this.emitters["goalwright/sessions/activity"].event;

  state: DaemonState = { phase: "idle" };
  /** Failures do not matter: the daemon has gone, or is older and goes on sending. */
  private readonly shown = new ShownSessions((sessionId) => void this.connection?.request("goalwright/session/unsubscribe", { sessionId }).catch(() => undefined));
  private connection: Connection | undefined;
  private connecting: Promise<Connection> | undefined;
  /** Settles when no earlier attempt holds a client, because VS Code rejects duplicate commands of a second one. */
  private ended: Promise<unknown> = Promise.resolve();
  /** A counter that invalidates running attempts when it increases. */
  private generation = 0;
  private wake: (() => void) | undefined;
  /** False after the user stopped the daemon. */
  private wanted = true;
  /** True while the daemon is being stopped: automatic requests must not start it again. */
  private stopping = false;

  constructor(private readonly around: Surroundings) {}

  /** Connect unless connected. Throws a Problem, which `state` also shows. */
  async connect(): Promise<void> {
    this.wake?.();
    await this.ensure();
  }

  async request<M extends Method>(method: M, params: Params<M>): Promise<Result<M>> {
    const connection = await this.ensure();
    try {
      return await connection.request(method, params);
    } finally {
      if (method === "goalwright/session/load") this.shown.settle((params as SessionLoadParams).sessionId);
    }
  }

  /** Note all sessions that a view shows or is opening: the daemon sends no updates of others. */
  show(view: object, sessionIds: readonly (string | undefined)[]): void {
    this.shown.set(view, sessionIds);
  }

  /** Make VS Code request code lenses again. */
  refreshLenses(): void {
    this.connection?.refreshLenses();
  }

  /** Disconnect and connect again, to send changed settings or trust to the daemon. */
  async reconnect(): Promise<void> {
    await this.disconnect();
    await this.connect();
  }

  /** Stop the daemon's process, which also ends its running turns. */
  async stop(): Promise<void> {
    const { folder, python, output } = this.around;
    this.wanted = false;
    this.stopping = true;
    try {
      const asked = await this.askToStop();
      await this.disconnect();
      const workspace = folder();
      if (!asked && workspace) {
        // The daemon does not respond or has another version, so the command line stops it by force.
        await stopByForce(await python(), workspace, (line) => output.info(line));
      }
    } finally {
      this.stopping = false;
    }
    this.set({ phase: "stopped" });
  }

  /** Ask the daemon to stop. False without a connection or an answer. */
  private async askToStop(): Promise<boolean> {
    const connection = this.connection;
    if (!connection) return false;
    const late = new Promise<false>((resolve) => setTimeout(() => resolve(false), STOP_PATIENCE_MS));
    // The daemon may exit before it writes its answer, so a broken connection counts as one.
    const asked = connection.request("goalwright/daemon/stop", {}).then(
      () => true as const,
      () => true as const,
    );
    return Promise.race([asked, late]);
  }

  private async disconnect(): Promise<void> {
    this.generation++;
    this.wake?.();
    const connection = this.connection;
    this.connection = undefined;
    this.connecting = undefined;
    await connection?.close();
  }

  dispose(): void {
    this.generation++;
    this.wake?.();
    void this.connection?.close();
    for (const emitter of [this.stateChanged, ...Object.values(this.emitters)]) emitter.dispose();
  }

  private ensure(): Promise<Connection> {
    if (this.connection) return Promise.resolve(this.connection);
    if (this.stopping) return Promise.reject(this.givenUp());
    return (this.connecting ??= this.begin(false));
  }

  /** Return the reason why an attempt to connect ends: another one replaced it, or the user stopped the daemon. */
  private givenUp(): Problem {
    return new Problem(this.wanted ? "canceled" : "stopped", t("The connection was canceled."));
  }

  private begin(lost: boolean): Promise<Connection> {
    this.wanted = true;
    const generation = this.generation;
    const attempt = this.ended.then(() => this.attempt(generation, lost));
    this.ended = attempt.catch(() => undefined);
    return attempt;
  }

  private async attempt(generation: number, lost: boolean): Promise<Connection> {
    for (let n = 0; ; n++) {
      await this.pause(backoff(n));
      if (generation !== this.generation) throw this.givenUp();
      this.set({ phase: lost || n > 0 ? "reconnecting" : "starting" });
      try {
        const connection = await this.open(generation);
        this.connecting = undefined;
        return connection;
      } catch (error) {
        this.failed(asProblem(error), generation, n + 1 < MAX_ATTEMPTS);
      }
    }
  }

  /** Return if it is worth trying again; throw the problem otherwise. */
  private failed(problem: Problem, generation: number, more: boolean): void {
    if (generation !== this.generation) throw problem;
    this.around.output.warn(`${problem.code}: ${problem.message}`);
    if (problem.passing && more) return;
    this.connecting = undefined;
    this.set(problem.code === "noFolder" ? { phase: "noFolder" } : { phase: "failed", problem });
    throw problem;
  }

  private async open(generation: number): Promise<Connection> {
    const folder = this.around.folder();
    if (!folder) throw new Problem("noFolder", stateText({ phase: "noFolder" }), ["openFolder"]);
    const python = await this.around.python();
    const endpoint = await launch(python, folder, (line) => this.around.output.info(line));
    const connection = await Connection.open(endpoint, this.around, this.emitters, () => this.onClosed(connection, endpoint));
    const status = await connection.request("goalwright/daemon/status", {});
    if (generation !== this.generation) {
      await connection.close();
      throw this.givenUp();
    }
    this.connection = connection;
    this.around.output.info(`connected to daemon ${status.version}, process ${status.pid}, model ${status.model}`);
    this.set({ phase: "connected", status });
    return connection;
  }

  private onClosed(connection: Connection, endpoint: Endpoint): void {
    if (this.connection !== connection) return;
    this.connection = undefined;
    if (this.stopping) return;
    if (wasStopped(endpoint)) {
      // The daemon was stopped from a terminal or another window, so do not start it again.
      this.around.output.info("the daemon was stopped");
      this.set({ phase: "stopped" });
      void this.awaitSuccessor(this.generation, endpoint);
      return;
    }
    this.around.output.warn("the connection to the daemon broke");
    this.reconnectInBackground();
  }

  /** A restart from elsewhere is a stop followed by a start; reconnect when the new daemon is there. */
  private async awaitSuccessor(generation: number, endpoint: Endpoint): Promise<void> {
    for (let n = 0; n < SUCCESSOR_POLLS; n++) {
      await this.pause(SUCCESSOR_POLL_MS);
      if (generation !== this.generation || this.connection || this.connecting) return;
      if (!wasStopped(endpoint)) return this.reconnectInBackground();
    }
  }

  private reconnectInBackground(): void {
    this.connecting = this.begin(true);
    // No caller may await this promise; `state` reports the failure.
    this.connecting.catch(() => undefined);
  }

  private pause(milliseconds: number): Promise<void> {
    if (milliseconds === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private set(state: DaemonState): void {
    this.state = state;
    this.stateChanged.fire(state);
  }
}
