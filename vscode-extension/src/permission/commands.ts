import * as vscode from "vscode";
import { openFile } from "../chat/open";
import type { Parts } from "../extension";
import { places } from "../daemon/environment";
import { asProblem } from "../daemon/problems";
import type { Action, PermissionRulesResult, Rule, StoredGrant } from "../protocol.gen";
import { button, type ListRow, liveList } from "../live_list";
import { grantRow, MODES, modeWords, ruleRow, trustWords } from "./format";
import { t } from "../l10n";
import { notify } from "../notify";

const SHOWN_MS = 4_000;
const TRUST = t("Manage Workspace Trust");

const ICONS: Readonly<Record<Action, string>> = { allow: "pass", ask: "question", deny: "circle-slash" };

/** Commands for permissions: the mode, grants and rules. */
export class PermissionCommands {
  constructor(private readonly parts: Pick<Parts, "daemon" | "sessions" | "surrounding">) {}

  /** Choose the mode of the current session. Throws the daemon's error, except for a lack of trust. */
  async setMode(): Promise<void> {
    const { daemon, sessions, surrounding } = this.parts;
    // The list is about this session, whichever is shown when the user chooses.
    const { sessionId: shown } = sessions;
    const now = sessions.state?.session.mode ?? surrounding.defaultMode;
    const items = MODES.map(({ mode, label, icon, detail }) => ({
      label: `$(${icon}) ${label}`,
      description: mode === now ? t("current") : "",
      detail,
      mode,
    }));
    const picked = await vscode.window.showQuickPick(items, {
      title: t("Mode of this session"),
      placeHolder: t("What can run without asking?"),
      matchOnDetail: true,
    });
    if (!picked || (picked.mode === now && shown)) return;
    try {
      const sessionId = shown ?? (await sessions.ensure());
      await daemon.request("goalwright/session/set", { sessionId, mode: picked.mode });
    } catch (error) {
      // The daemon rejected the mode because the folder is not trusted, so offer to change that.
      if (vscode.workspace.isTrusted) throw error;
      const choice = await notify("error", asProblem(error).message, TRUST);
      if (choice === TRUST) await vscode.commands.executeCommand("workbench.trust.manage");
      return;
    }
    vscode.window.setStatusBarMessage(t("Goalwright: mode {0}", modeWords(picked.mode).label), SHOWN_MS);
  }

  /** List the grants, which can be removed, and the rules. Resolves when the list is closed. */
  async manage(): Promise<void> {
    const read = async (pick: vscode.QuickPick<ListRow>): Promise<ListRow[]> => {
      const { sessionId } = this.parts.sessions;
      const found = await this.parts.daemon.request("goalwright/permission/rules", sessionId ? { sessionId } : {});
      pick.title = t("Permissions · mode {0} · {1}", modeWords(found.mode).label, trustWords(found.trust));
      return itemsOf(found, Date.now(), (grant) => ({
        buttons: [button("trash", t("Remove"), { stay: () => this.forget(grant, sessionId).then(() => read(pick)) })],
        // Enter does what the row's button does, for keyboard users.
        enter: () => this.askToForget(grant, sessionId),
      }));
    };
    await liveList({ title: t("Permissions"), placeholder: t("Your permissions and active rules"), matchOnDescription: true, matchOnDetail: true }, read);
  }

  private async askToForget(grant: StoredGrant, sessionId: string | undefined): Promise<void> {
    const { label, description, detail } = grantRow(grant, Date.now());
    const question = t("Ask again for {0}?", label);
    const choice = await vscode.window.showWarningMessage(question, { modal: true, detail: `${description}\n${detail}` }, t("Remove Permission"));
    if (choice !== undefined) await this.forget(grant, sessionId).catch((error: unknown) => notify("error", asProblem(error).message));
    await this.manage();
  }

  /** `sessionId`: the session whose permissions are listed, because another one may be shown by now. */
  private async forget({ grantId, scope, permission, pattern }: StoredGrant, sessionId: string | undefined): Promise<void> {
    const session = scope === "session" && sessionId ? { sessionId } : {};
    await this.parts.daemon.request("goalwright/permission/forget", { grantIds: [grantId], ...session });
    vscode.window.setStatusBarMessage(t("Goalwright: asks again for {0}", `${permission}: ${pattern}`), SHOWN_MS);
  }
}

/** Return the rows: grants, newest first, then rules by descending priority. `actions`: what can be done with a grant. */
function itemsOf({ grants, rules }: PermissionRulesResult, now: number, actions: (grant: StoredGrant) => Pick<ListRow, "buttons" | "enter">): ListRow[] {
  const separator = (label: string): ListRow => ({ label, kind: vscode.QuickPickItemKind.Separator });
  const newest = [...grants].sort((a, b) => (b.grantedAt ?? "").localeCompare(a.grantedAt ?? ""));
  return [
    separator(t("Granted by you")),
    ...newest.map((grant): ListRow => ({ ...grantRow(grant, now), iconPath: new vscode.ThemeIcon("key"), ...actions(grant) })),
    ...(grants.length === 0 ? [{ label: t("Nothing yet"), detail: t("To add one, choose “Always allow…” on a request.") }] : []),
    separator(t("Active rules, highest priority first")),
    ...rules.toReversed().map((rule): ListRow => {
      const enter = (): Promise<void> => open(rule);
      return { ...ruleRow(rule, places()), iconPath: new vscode.ThemeIcon(ICONS[rule.action]), buttons: rule.file ? [button("go-to-file", t("Open the file with this rule"), { leave: enter })] : [], enter };
    }),
  ];
}

async function open({ source, file }: Rule): Promise<void> {
  if (file) await openFile(file);
  else if (source === "editor") await vscode.commands.executeCommand("workbench.action.openSettings", "goalwright");
  else vscode.window.setStatusBarMessage(t("Goalwright: built-in rule. Add your own to override it."), SHOWN_MS);
}
