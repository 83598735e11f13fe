import * as vscode from "vscode";
import { openTrace } from "./dag/panel";
import type { Daemon } from "./daemon/daemon";
import { chooseFolder, expand, setting } from "./daemon/environment";
import { ACTIONS, asProblem } from "./daemon/problems";
import { proposedBy } from "./diff/uris";
import { menuCommands } from "./editor/menus";
import { buildPlan, chooseAgent, handOver, newSessionWith, replan } from "./explore/agents";
import { requestTitle } from "./explore/format";
import type { Place } from "./goals/tree";
import { nameOf, placeOf } from "./goals/model";
import { restore, reviewSince, step } from "./history/commands";
import { type Answer, isQuestion } from "./permission/answers";
import { showServers } from "./mcp/servers";
import { showJobs } from "./permission/jobs";
import type { PermissionRequest } from "./protocol.gen";
import { childSession } from "./explore/view";
import type { Parts } from "./extension";
import { t } from "./l10n";
import { notify, unlinked } from "./notify";

/** Register all commands of the manifest (each returns whether it did its work), and those that only buttons use (`connect`, `downloadPython`, `manageTrust`, `showSession`). */
export function registerCommands(parts: Parts): vscode.Disposable {
  const { daemon, sessions, chat, history, contexts, permissions, log } = parts;
  const commands: Record<string, (...args: unknown[]) => unknown> = {
    focusChat: () => chat.focus(),
    newSession: async () => {
      await sessions.startNew();
      await chat.focus();
    },
    newSessionWith: () => newSessionWith(parts),
    handOver: () => handOver(parts),
    buildPlan: () => buildPlan(parts),
    chooseAgent: () => chooseAgent(parts),
    replan: () => replan(parts),
    ...branchActions(parts),
    openSession: () =>
      parts.picker.show(async (sessionId) => {
        await sessions.open(sessionId);
        await chat.focus();
      }),
    showSession: async (sessionId) => {
      if (typeof sessionId === "string") await sessions.open(sessionId);
      await chat.reveal();
    },
    forkSession: async () => {
      await sessions.fork();
      await chat.focus();
    },
    renameSession: () => parts.picker.renameShown(),
    cancel: () => sessions.cancel(),
    // The keybinding for all edits runs this command with "all" instead of `acceptAll`, to leave room for the name of
    // that one in the title bar.
    accept: (uri) => (uri === "all" ? answerAll(parts, true) : answer(parts, uri, { reply: "once" })),
    reject: (uri) => answer(parts, uri, { reply: "reject" }),
    acceptAll: () => answerAll(parts, true),
    rejectAll: () => answerAll(parts, false),
    acceptFile: () => decideFile(parts, true),
    rejectFile: () => decideFile(parts, false),
    rejectWithFeedback: (uri) => rejectWithFeedback(parts, uri),
    openDiff: async () => {
      const request = parts.review.target();
      if (request) await parts.review.open(request);
    },
    undoChange: () => step(history, "undo"),
    redoChange: () => step(history, "redo"),
    reviewGoal: (goalId) => (typeof goalId === "string" ? reviewSince(history, { goalId }) : undefined),
    undoGoal: (goalId) => (typeof goalId === "string" ? undoGoal(parts, goalId) : undefined),
    ...goalActions(parts),
    ...menuCommands(parts),
    showGraph: () => parts.graph.show(),
    openTrace: () => openTrace(parts),
    compact: (from, words) => contexts.compact(from !== "meter", typeof words === "string" ? words : ""),
    showContext: () => contexts.show(),
    refreshContext: (uri) => contexts.refresh(uri),
    setBudget: () => contexts.setBudget(),
    connectModel: (provider) => parts.models.connect(typeof provider === "string" ? provider : undefined),
    chooseModel: () => parts.models.choose(),
    chooseThinking: () => parts.models.chooseThinking(),
    setMode: () => permissions.setMode(),
    managePermissions: () => permissions.manage(),
    showJobs: () => showJobs(daemon, sessions),
    showServers: () => showServers(daemon),
    showLog: () => log.show(),
    restartDaemon: async () => {
      await daemon.stop();
      await daemon.connect();
    },
    stopDaemon: () => daemon.stop(),
    chooseFolder: async () => {
      if (await chooseFolder()) await daemon.reconnect();
    },
    connect: () => daemon.connect(),
    manageTrust: () => vscode.commands.executeCommand("workbench.trust.manage"),
    install: () => install(parts),
    choosePython: () => choosePython(parts),
    downloadPython: () => vscode.env.openExternal(vscode.Uri.parse("https://www.python.org/downloads/")),
  };
  return vscode.Disposable.from(
    ...Object.entries(commands).map(([name, command]) =>
      vscode.commands.registerCommand(`goalwright.${name}`, async (...args: unknown[]) => {
        try {
          await command(...args);
          return true;
        } catch (error) {
          void parts.tell(error);
          return false;
        }
      }),
    ),
  );
}

/** Commands for one goal. Menus and buttons pass its id; for a keybinding it is the selected row. */
function goalActions({ goals, goalCommands, chat }: Parts): Record<string, (...args: unknown[]) => unknown> {
  const add = async (parentId?: string): Promise<void> => {
    const goalId = await goalCommands.add(parentId);
    if (goalId !== null) await goals.show(goalId);
  };
  const on = (action: (goalId: string) => unknown) => (goalId: unknown) => {
    const about = typeof goalId === "string" ? goalId : goals.selected;
    if (about?.startsWith("@")) return undefined; // a branch or one of its goals, which belong to the branch's own plan
    if (about !== undefined) return action(about);
    vscode.window.setStatusBarMessage(t("Goalwright: select a goal in the Goals view first"), 4_000);
    return undefined;
  };
  return {
    addGoal: () => add(),
    addSubGoal: on(add),
    filterGoals: () => goals.filter(),
    clearGoalFilter: () => goals.setQuery(""),
    focusGoal: on((goalId) => goalCommands.focus(goalId)),
    renameGoal: on((goalId) => goalCommands.rename(goalId)),
    doneGoal: on((goalId) => goalCommands.done(goalId)),
    abandonGoal: on((goalId) => goalCommands.abandon(goalId)),
    showGoal: on((goalId) => chat.showGoal(goalId)),
    goalActions: on((goalId) => goalCommands.choose(goalId)),
    moveGoal: (goalId, place) => (typeof goalId === "string" ? goalCommands.move(goalId, place as Place) : undefined),
    moveGoalUp: on((goalId) => goalCommands.shift(goalId, "up")),
    moveGoalDown: on((goalId) => goalCommands.shift(goalId, "down")),
  };
}

/** Return a function that shows an error with buttons to fix it. */
export function problemTeller(daemon: Daemon, log: vscode.LogOutputChannel): (error: unknown) => Promise<void> {
  return async (error) => {
    const problem = asProblem(error);
    log.error(`${problem.code}: ${problem.message}`);
    if (problem.code === "canceled") return;
    // The daemon answered, so restarting it does not help; its message says what to do.
    const actions = typeof (error as { code?: unknown }).code === "number" ? [] : problem.actions;
    const choice = await notify(
      "error",
      problem.message,
      ...actions.map((id) => ({ title: ACTIONS[id].label, action: ACTIONS[id] })),
    );
    if (choice) await vscode.commands.executeCommand(choice.action.command, ...choice.action.args);
    else if (daemon.state.phase === "failed") log.info("left as it is");
  };
}

async function answer(parts: Parts, uri: unknown, given: Answer): Promise<void> {
  const request = parts.review.target(proposal(uri));
  // A question cannot be accepted: it is answered on its card. Keys answer only what is visible; otherwise they show
  // the request first.
  const blind = request && !parts.chat.visible && !parts.review.inView(request);
  if (blind) {
    await parts.chat.reveal();
    vscode.window.setStatusBarMessage(t("Goalwright: review the request, then answer it"), 4_000);
  } else if (request && isQuestion(request) && given.reply !== "reject") await parts.chat.reveal();
  else if (request) await send(parts, request, given);
}

/** Send an answer. The card shows errors too, but the chat may be hidden. */
async function send({ review, sessions, log }: Parts, request: PermissionRequest, given: Answer): Promise<void> {
  try {
    await review.answer(request, given);
  } catch (error) {
    const { message } = asProblem(error);
    log.warn(`answer: ${message}`);
    sessions.giveBack(given, request.traceId);
    void notify("error", message);
  }
}

/** Answer all edits of a step, if they are visible. */
async function answerAll({ review, chat }: Parts, accepted: boolean): Promise<void> {
  const request = review.target();
  if (!request) return;
  if (chat.visible || review.inView(request)) await review.answerAll(request, accepted);
  else await chat.reveal();
}

/** Accept or reject the file at the caret in a review of several files. */
async function decideFile({ review }: Parts, accepted: boolean): Promise<void> {
  const file = review.file();
  if (file) await review.decide(file.requestId, file.path, undefined, accepted);
  else vscode.window.setStatusBarMessage(t("Goalwright: put the cursor into the file first"), 4_000);
}

async function undoGoal({ history, sessions }: Parts, goalId: string): Promise<void> {
  const tree = sessions.state?.goalTree;
  const goal = tree?.goals.find((one) => one.id === goalId);
  if (!tree || !goal) return;
  const name = nameOf(goal, tree);
  await restore(
    history,
    { goalId },
    {
      question: t("Undo the file changes of goal “{0}”?", name),
      button: t("Undo"),
      nothing: t("Nothing to undo: no file was changed for goal “{0}”, or all of it is undone already.", name),
    },
  );
}

async function rejectWithFeedback(parts: Parts, uri: unknown): Promise<void> {
  const request = parts.review.target(proposal(uri));
  if (!request) return;
  const feedback = await vscode.window.showInputBox({
    title: t("Suggest changes: {0}", requestTitle(request)),
    prompt: t("What should be different? The agent continues with your feedback."),
    ignoreFocusOut: true,
  });
  if (feedback !== undefined) await send(parts, request, { reply: "reject", feedback });
}

/** Return the document whose title bar was clicked; undefined for a keybinding. */
function proposal(uri: unknown): vscode.Uri | undefined {
  return uri instanceof vscode.Uri && proposedBy(uri) ? uri : undefined;
}

/** The running installation, at most one. Its progress is a notification with a cancel button. */
let installing: Promise<void> | undefined;

function install(parts: Parts): Promise<void> {
  installing ??= runInstall(parts).finally(() => {
    installing = undefined;
  });
  return installing;
}

async function runInstall({ daemon, installation, surrounding, log }: Parts): Promise<void> {
  surrounding.setInstalling(true);
  try {
    const options = { location: vscode.ProgressLocation.Notification, title: t("Installing Goalwright"), cancellable: true };
    await vscode.window.withProgress(options, async (progress, token) => {
      const abort = new AbortController();
      token.onCancellationRequested(() => abort.abort());
      await installation.install({
        basePython: expand(setting("basePython"), undefined),
        signal: abort.signal,
        log: (line) => log.info(line),
        report: (message) => progress.report({ message: unlinked(message) }),
      });
    });
  } finally {
    surrounding.setInstalling(false);
  }
  if (setting("python")) {
    // The setting would override the new installation.
    await vscode.workspace.getConfiguration("goalwright").update("python", undefined, vscode.ConfigurationTarget.Global);
  }
  await daemon.reconnect();
}

async function choosePython(parts: Parts): Promise<void> {
  const installed = await parts.installation.python().catch(() => undefined);
  const purpose = await vscode.window.showQuickPick(
    [
      { label: t("A Python 3.11 or newer to install Goalwright from"), detail: t("Sets goalwright.basePython"), name: "basePython" },
      { label: t("A Python that has Goalwright installed already"), detail: t("Sets goalwright.python"), name: "python" },
    ],
    { title: t("Choose Python"), placeHolder: installed ? t("In use: {0}", installed) : t("What kind of Python is it?") },
  );
  if (!purpose) return;
  const picked = await vscode.window.showOpenDialog({ title: t("Choose the Python program"), openLabel: t("Choose") });
  const file = picked?.[0];
  if (!file) return;
  const configuration = vscode.workspace.getConfiguration("goalwright");
  await configuration.update(purpose.name, file.fsPath, vscode.ConfigurationTarget.Global);
  if (purpose.name === "basePython") await install(parts);
  else await parts.daemon.reconnect();
}

function branchActions({ sessions, explorations, records, chat }: Pick<Parts, "sessions" | "explorations" | "records" | "chat">): Record<string, (element: unknown) => unknown> {
  const on = (action: (sessionId: string, branchId: string) => unknown) => (element: unknown) => {
    const { branch } = typeof element === "string" ? placeOf(element) : {};
    const { sessionId } = sessions;
    return sessionId && branch !== undefined ? action(sessionId, branch) : undefined;
  };
  return {
    showBranchChanges: on((sessionId, id) => explorations.open(sessionId, id)),
    useBranch: on((sessionId, id) => {
      const branch = sessions.state?.branches[id];
      return branch && explorations.use(sessionId, branch.exploreStartId, [id]);
    }),
    openBranch: on(async (sessionId, id) => {
      await records.open(childSession(sessionId, id));
      await chat.reveal();
    }),
    removeBranch: on((sessionId, id) => explorations.remove(sessionId, id)),
  };
}
