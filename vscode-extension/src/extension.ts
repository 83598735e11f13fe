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

/** Create the parts of the extension and connect them. */
export function activate(context: vscode.ExtensionContext): void {
  const { globalState } = context;
  const log = vscode.window.createOutputChannel("Goalwright", { log: true });
  const storage = context.storageUri?.fsPath;
  const memory = storage === undefined ? context.workspaceState : new WorkspaceMemory(storage, (text) => log.warn(text));
  rememberFolderIn(memory);
  const bundle = vscode.Uri.joinPath(context.extensionUri, "bundled").fsPath;
  const installation = new Installation(bundle, context.globalStorageUri.fsPath);
  const keys = new ProviderKeys(context.secrets, globalState, (text) => log.warn(text));
  const problems = new EditorProblems();
  const languageModels = new LanguageModels(context.languageModelAccessInformation);
  const daemon = new Daemon({
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
  const shared = new WorkspaceMemory(context.globalStorageUri.fsPath, (text) => log.warn(text));
  const folder = workspaceFolder();
  if (folder) takeChosen(shared, memory, folder.uri.fsPath);
  const sessions = new SessionController(daemon, memory, log);
  const review = new Review(daemon, sessions, memory, log, async () => {
    if (chat.visible) await chat.focus();
  });
  const history = new FileHistory(daemon, sessions, log);
  const active = new ActiveEditor(memory);
  const attention: Attention = new Attention(daemon, sessions, () => chat);
  const surrounding = new SurroundingModel(daemon, sessions, attention, active);
  const records = new Records(daemon, sessions);
  const explorations = new Explorations(daemon, sessions, records);
  const chat: ChatView = new ChatView(context.extensionUri, { daemon, sessions, review, history, explorations, records, surrounding, attention, active, memory, log });
  const goalCommands = new GoalCommands({ daemon, sessions, history });
  const tell = problemTeller(daemon, log);
  const features = new EditorFeatures({ daemon, sessions, review, chat, tell });
  const goals = new GoalsView(sessions, goalCommands, (error) => void tell(error), daemon, globalState, history);
  const graph = new GraphPanel(context.extensionUri, { daemon, sessions, goals, log });
  const contexts = new ContextCommands({ daemon, sessions });
  const models = new ModelCommands({ daemon, sessions, keys, globalState });
  const permissions = new PermissionCommands({ daemon, sessions, surrounding });
  const picker = new SessionPicker({ daemon, sessions, memory, shared });
  const parts = { daemon, sessions, picker, chat, review, history, explorations, records, surrounding, attention, active, installation, goals, goalCommands, graph, contexts, models, keys, permissions, memory, shared, globalState, tell, log };
  context.subscriptions.push(
    log,
    daemon,
    problems,
    languageModels,
    keys,
    sessions,
    review,
    history,
    records,
    earlierTexts(),
    explorations,
    active,
    surrounding,
    chat,
    features,
    goals,
    graph,
    contexts,
    attention,
    new StatusItem(daemon, sessions, attention),
    registerCommands(parts),
    watchSurroundings(parts),
  );
  welcome(context, chat);
  models.tellLost().catch((error: unknown) => log.warn(String(error)));
}

/** Open the chat after the first installation, because a view in the secondary side bar is hidden until it is opened. */
function welcome(context: vscode.ExtensionContext, chat: ChatView): void {
  if (context.globalState.get("welcomed")) return;
  void context.globalState.update("welcomed", true);
  void chat.reveal();
}
