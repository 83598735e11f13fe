import "./language";
import * as vscode from "vscode";
import { ChatView } from "./chat/view";
import { SurroundingModel } from "./chat/editor_state";
import { problemTeller, registerCommands } from "./commands";
import { ActiveEditor } from "./composer/active";
import { ContextCommands } from "./context/commands";
import { GraphPanel } from "./dag/panel";
import { Daemon } from "./daemon/daemon";
import { findPython, initializationOptions, rememberFolderIn, workspaceFolder } from "./daemon/environment";
import { Installation } from "./daemon/install";
import { watchSurroundings } from "./daemon/watch";
import { EditorProblems } from "./diagnostics/editor";
import { Review } from "./diff/review";
import { EditorFeatures } from "./editor/features";
import { Explorations } from "./explore/explorations";
import { Records } from "./explore/record";
import { GoalCommands } from "./goals/commands";
import { GoalsView } from "./goals/view";
import { FileHistory } from "./history/model";
import { earlierTexts } from "./history/commands";
import { PermissionCommands } from "./permission/commands";
import { LanguageModels } from "./models/language_models";
import { ModelCommands } from "./models/commands";
import { ProviderKeys } from "./models/keys";
import { SessionController } from "./session/controller";
import { WorkspaceMemory } from "./session/memory";
import { Attention } from "./status/attention";
import { SessionPicker, takeChosen } from "./session/picker";
import { StatusItem } from "./status/item";

/** The parts of the extension. Those that need several others take them from here. */
export type Parts = ReturnType<typeof create>;

export function activate(context: vscode.ExtensionContext): void {
  const parts = create(context);
  const { daemon, sessions, attention, chat, models, log } = parts;
  context.subscriptions.push(
    log,
    daemon,
    parts.problems,
    parts.languageModels,
    parts.keys,
    sessions,
    parts.review,
    parts.history,
    parts.records,
    earlierTexts(),
    parts.explorations,
    parts.active,
    parts.surrounding,
    chat,
    parts.features,
    parts.goals,
    parts.graph,
    parts.contexts,
    attention,
    new StatusItem(daemon, sessions, attention),
    registerCommands(parts),
    watchSurroundings(parts),
  );
  welcome(context, chat);
  models.tellLost().catch((error: unknown) => log.warn(String(error)));
}

/** Create the parts and connect them. Each constant names its type, because some parts are described by all of them. */
function create(context: vscode.ExtensionContext) {
  const { globalState } = context;
  const log: vscode.LogOutputChannel = vscode.window.createOutputChannel("Goalwright", { log: true });
  const warn = (text: string): void => log.warn(text);
  const storage = context.storageUri?.fsPath;
  // Storage of this folder, and of the windows of all folders.
  const memory: vscode.Memento = storage === undefined ? context.workspaceState : new WorkspaceMemory(storage, warn);
  /** Apart, because pictures can be large and the memory is written while the user types. */
  const unsent: vscode.Memento = storage === undefined ? context.workspaceState : new WorkspaceMemory(storage, warn, "unsent.json");
  const shared: Pick<vscode.Memento, "get" | "update"> = new WorkspaceMemory(context.globalStorageUri.fsPath, warn);
  rememberFolderIn(memory);
  const bundle = vscode.Uri.joinPath(context.extensionUri, "bundled").fsPath;
  const installation: Installation = new Installation(bundle, context.globalStorageUri.fsPath);
  const keys: ProviderKeys = new ProviderKeys(context.secrets, globalState, warn);
  const problems: EditorProblems = new EditorProblems();
  const languageModels: LanguageModels = new LanguageModels(context.languageModelAccessInformation);
  const daemon: Daemon = new Daemon({
    output: log,
    folder: () => workspaceFolder()?.uri.fsPath,
    python: () => findPython(installation),
    options: async () => {
      await keys.ready;
      return initializationOptions(keys.variables);
    },
    diagnostics: (params) => problems.answer(params),
    languageModels,
    middleware: () => features.middleware,
  });
  const folder = workspaceFolder();
  if (folder) takeChosen(shared, memory, folder.uri.fsPath);
  const sessions: SessionController = new SessionController(daemon, memory, log);
  const review: Review = new Review(daemon, sessions, memory, log, async () => {
    if (chat.visible) await chat.refocus();
  });
  const history: FileHistory = new FileHistory(daemon, sessions, log);
  const active: ActiveEditor = new ActiveEditor(memory);
  const attention: Attention = new Attention(daemon, sessions, () => chat);
  const surrounding: SurroundingModel = new SurroundingModel(daemon, sessions, attention, active);
  const records: Records = new Records(daemon, sessions);
  const explorations: Explorations = new Explorations(daemon, sessions, records);
  const chat: ChatView = new ChatView(context.extensionUri, { daemon, sessions, review, history, explorations, records, surrounding, attention, active, memory, unsent, log });
  const goalCommands: GoalCommands = new GoalCommands({ daemon, sessions, history });
  /** Show an error. */
  const tell: (error: unknown) => Promise<void> = problemTeller(daemon, log);
  const features: EditorFeatures = new EditorFeatures({ daemon, sessions, review, chat, tell });
  const goals: GoalsView = new GoalsView(sessions, goalCommands, (error) => void tell(error), globalState, history);
  const graph: GraphPanel = new GraphPanel(context.extensionUri, { daemon, sessions, goals, log });
  const contexts: ContextCommands = new ContextCommands({ daemon, sessions });
  const models: ModelCommands = new ModelCommands({ daemon, sessions, keys, globalState });
  const permissions: PermissionCommands = new PermissionCommands({ daemon, sessions, surrounding });
  const picker: SessionPicker = new SessionPicker({ daemon, sessions, memory, shared });
  return {
    daemon, sessions, picker, chat, review, history, explorations, records, surrounding, attention, active, installation, goals, goalCommands,
    graph, contexts, models, languageModels, keys, permissions, problems, features, memory, unsent, shared, globalState, tell, log,
  };
}

/** Open the chat after the first installation, because a view in the secondary side bar is hidden until it is opened. */
function welcome(context: vscode.ExtensionContext, chat: ChatView): void {
  if (context.globalState.get("welcomed")) return;
  void context.globalState.update("welcomed", true);
  void chat.reveal();
}
