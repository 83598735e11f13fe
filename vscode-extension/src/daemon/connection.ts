import * as net from "node:net";
import * as vscode from "vscode";
import {
  CancellationToken,
  CloseAction,
  ErrorAction,
  CodeLensRequest,
  LanguageClient,
  State,
  type LanguageClientOptions,
  type Middleware,
  type StreamInfo,
} from "vscode-languageclient/node";
import {
  ErrorCode,
  PREAMBLE,
  type EditorChat,
  type EditorDiagnosticsParams,
  type EditorDiagnosticsResult,
  type InitializationOptions,
  type Notifications,
  type Requests,
} from "../protocol.gen";
import type { LanguageModels } from "../models/language_models";
import type { Endpoint } from "./launch";
import { Problem } from "./problems";
import { t } from "../l10n";

export type Method = keyof Requests;
export type Params<M extends Method> = Requests[M]["params"];
export type Result<M extends Method> = Requests[M]["result"];

/** The parts of this window that a connection to the daemon uses. */
export interface Surroundings {
  output: vscode.LogOutputChannel;
  /** Workspace folder, or undefined when none is open. */
  folder: () => string | undefined;
  /** Path of the interpreter with Goalwright. Throws a Problem when there is none. */
  python: () => Promise<string>;
  options: () => Promise<InitializationOptions>;
  /** Diagnostics of the user's other extensions. */
  diagnostics: (params: EditorDiagnosticsParams) => Promise<EditorDiagnosticsResult>;
  languageModels: LanguageModels;
  /** Middleware between VS Code and the daemon's LSP features. */
  middleware: () => Middleware;
}

/** Emitters of the daemon's notifications about sessions. */
export type Emitters = { [M in Extract<keyof Notifications, `goalwright/session${string}`>]: vscode.EventEmitter<Notifications[M]> };

const CONNECT_TIMEOUT_MS = 10_000;

/** One connection to the daemon: LSP for the open buffers, and Goalwright's own requests. */
export class Connection {
  private started = false;
  private closed = false;

  private constructor(
    private readonly client: LanguageClient,
    private readonly languageModels: LanguageModels,
  ) {}

  /** Connect and initialize. Throws a Problem. */
  static async open(endpoint: Endpoint, around: Surroundings, emitters: Emitters, onClosed: () => void): Promise<Connection> {
    const { languageModels } = around;
    const options = await around.options();
    const socket = await connect(endpoint);
    const unseen = new Unseen();
    const own = around.middleware();
    const middleware: Middleware = {
      ...own,
      workspace: {
        ...own.workspace,
        handleApplyEdit: (params, next) => {
          unseen.note((params.edit.documentChanges ?? []).flatMap((change) => ("textDocument" in change ? [change.textDocument.uri] : [])));
          return next(params, CancellationToken.None);
        },
      },
    };
    const client = new LanguageClient(
      "goalwright",
      "Goalwright",
      (): Promise<StreamInfo> => Promise.resolve({ reader: socket, writer: socket, detached: true }),
      clientOptions(options, around.output, middleware),
    );
    const connection = new Connection(client, languageModels);
    client.onDidChangeState(({ newState }) => {
      if (newState === State.Stopped && !connection.closed) {
        connection.closed = true;
        languageModels.cancelAll();
        if (connection.started) onClosed();
      }
    });
    for (const [method, emitter] of Object.entries(emitters) as [string, vscode.EventEmitter<unknown>][]) client.onNotification(method, (params) => emitter.fire(params));
    client.onRequest("goalwright/editor/diagnostics", around.diagnostics);
    client.onRequest("goalwright/editor/models", () => languageModels.list());
    client.onNotification("goalwright/editor/chat", (asked: EditorChat) => {
      void languageModels.chat(asked, (params) => connection.request("goalwright/model/answer", params));
    });
    client.onNotification("goalwright/editor/chatCancel", ({ chatId }: { chatId: string }) => languageModels.cancel(chatId));
    client.onRequest("goalwright/editor/save", async ({ uri }: { uri: string }) => {
      const key = vscode.Uri.parse(uri).toString();
      const document = vscode.workspace.textDocuments.find((open) => open.uri.toString() === key);
      const saved = document !== undefined && (await document.save());
      if (saved) unseen.saved(key);
      return { saved };
    });
    try {
      await client.start();
    } catch (error) {
      connection.closed = true;
      socket.destroy();
      throw startProblem(error);
    }
    connection.started = true;
    return connection;
  }

  request<M extends Method>(method: M, params: Params<M>): Promise<Result<M>> {
    return this.client.sendRequest<Result<M>>(method, params);
  }

  /** Make VS Code request the code lenses of visible editors again. */
  refreshLenses(): void {
    if (this.closed) return;
    const feature = this.client.getFeature(CodeLensRequest.method);
    for (const { document } of vscode.window.visibleTextEditors) feature.getProvider(document)?.onDidChangeCodeLensEmitter.fire();
  }

  /** Shut down the connection; the daemon keeps running. Never throws. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    this.languageModels.cancelAll();
    await this.client.dispose(1_000).catch(() => undefined);
  }
}

function connect(endpoint: Endpoint): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket =
      endpoint.socket !== undefined
        ? net.connect({ path: endpoint.socket })
        : net.connect({ host: "127.0.0.1", port: endpoint.port ?? 0 });
    const fail = (why: string): void => {
      socket.destroy();
      reject(new Problem("unreachable", t("The Goalwright daemon cannot be reached: {0}", why), undefined, true));
    };
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => fail(t("no answer in time")));
    socket.once("error", (error) => fail(error.message));
    socket.once("connect", () => {
      socket.setTimeout(0);
      socket.removeAllListeners("error");
      socket.setNoDelay(true);
      socket.write(`${PREAMBLE} ${endpoint.token}\n`);
      resolve(socket);
    });
  });
}

function clientOptions(
  options: InitializationOptions,
  output: vscode.LogOutputChannel,
  middleware: Middleware,
): LanguageClientOptions {
  return {
    // Synchronize open files only: the daemon needs unsaved text, and nothing else from the editor.
    documentSelector: [{ scheme: "file" }],
    initializationOptions: options,
    middleware,
    outputChannel: output,
    // daemon.ts handles reconnecting, because it can also start a daemon that died.
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => ({ action: CloseAction.DoNotRestart, handled: true, message: t("The connection to the daemon closed.") }),
    },
    initializationFailedHandler: () => false,
  };
}

function startProblem(error: unknown): Problem {
  const message = error instanceof Error ? error.message : String(error);
  const code = (error as { code?: unknown }).code;
  if (code === ErrorCode.INCOMPATIBLE) return new Problem("incompatible", message, ["restartDaemon", "showLog"]);
  if (code === ErrorCode.UNAUTHORIZED) return new Problem("unauthorized", message, ["restartDaemon", "showLog"]);
  return new Problem("unreachable", t("The Goalwright daemon closed the connection: {0}", message), undefined, true);
}

/**
 * Hide files that are open without a tab while the daemon edits them: VS Code opens a tab for each file with unsaved
 * changes, even if they are saved a moment later.
 */
export class Unseen {
  private readonly edited = new Set<string>();

  /** Record files before they are edited. */
  note(uris: readonly string[]): void {
    for (const uri of uris.map((one) => vscode.Uri.parse(one).toString())) {
      if (tabsOf(uri).length === 0) this.edited.add(uri);
      else this.edited.delete(uri);
    }
  }

  /** Close the tab of a saved file. Closing it earlier would discard the edit. */
  saved(uri: string): void {
    if (!this.edited.delete(uri)) return;
    const tabs = tabsOf(uri).filter((tab) => !tab.isActive && !tab.isDirty);
    if (tabs.length > 0) vscode.window.tabGroups.close(tabs, true).then(undefined, () => undefined);
  }
}

function tabsOf(uri: string): vscode.Tab[] {
  const has = ({ input }: vscode.Tab): boolean => input instanceof vscode.TabInputText && input.uri.toString() === uri;
  return vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs.filter(has));
}
