import * as vscode from "vscode";
import type { Parts } from "../extension";
import { setting } from "../daemon/environment";
import { asProblem } from "../daemon/problems";
import { button, type ListRow, liveList } from "../live_list";
import { t } from "../l10n";
import type { ModelProvider, ModelTestResult, OfferedModel } from "../protocol.gen";
import { connectionOf, type Entered } from "./connect";
import { modelFacts, THINKING, thinkingWord } from "./format";
import { notify, unlinked } from "../notify";

const RECENT = "recentModels";
const RECENT_KEPT = 5;
const SHOWN_MS = 5_000;

type ModelParts = Pick<Parts, "daemon" | "sessions" | "keys" | "globalState">;

/** Commands for models: connect a provider, choose a model, set the thinking budget. */
export class ModelCommands {
  constructor(private readonly parts: ModelParts) {}

  /** Connect a provider: enter a key or address, test it, choose a first model. Resolves on success or when the user cancels. */
  async connect(providerId?: string): Promise<void> {
    const provider = await this.provider(providerId);
    if (!provider) return;
    let entered = await connectionOf(provider, (env) => this.listed(provider.id, env));
    while (entered) {
      const model = entered.provider.default || (await this.picked(entered.provider));
      if (!model) return;
      const tested = await this.tested(model, entered);
      if (!tested.error) return this.finish(model, entered, tested);
      entered = await this.failed(model, entered, tested);
    }
  }

  /** Warn when this window has lost the entered keys; otherwise the next prompt would fail without an obvious reason. */
  async tellLost(): Promise<void> {
    const { keys } = this.parts;
    await keys.ready;
    if (!keys.lost) return;
    const again = t("Connect a Model…");
    const lost = t("This VS Code window cannot store keys, so the one you entered is lost. Enter it again, or set it in the environment that VS Code starts in.");
    if ((await notify("warning", lost, again)) === again) await this.connect();
  }

  /** Choose the model of the current session, or of new sessions when none is open. */
  async choose(): Promise<void> {
    const { sessions, daemon } = this.parts;
    // The list is about this session, whichever is shown when the user chooses.
    const { sessionId } = sessions;
    const now = sessions.state?.session.model || (daemon.state.phase === "connected" ? daemon.state.status.model : "");
    const recent = this.recent(now);
    let providers: readonly ModelProvider[] = [];
    let listeners: vscode.Disposable | undefined;
    const placeholder = t("Choose a model, or type provider/model");
    const list = liveList({ title: sessionId !== undefined ? t("Model of this session") : t("Model of new sessions"), placeholder, matchOnDescription: true }, async (pick) => {
      const rows = (): ListRow[] => this.rows(recent, now, providers, pick.value, sessionId);
      const show = (): void => {
        pick.items = rows();
      };
      show();
      listeners = vscode.Disposable.from(
        pick.onDidChangeValue(show),
        vscode.lm.onDidChangeChatModels(() => {
          void this.listed("vscode").then(([found]) => {
            providers = providers.map((one) => (found && one.id === found.id ? found : one));
            show();
          }, () => undefined);
        }),
      );
      // Recent models can be chosen without the others.
      providers = await this.listed().catch(() => []);
      return rows();
    });
    await list.finally(() => listeners?.dispose());
  }

  /** Return the rows of the model picker: recent models, then those of each connected provider. */
  private rows(recent: readonly string[], now: string, providers: readonly ModelProvider[], typed: string, sessionId: string | undefined): ListRow[] {
    const inSession = sessionId !== undefined;
    const known = new Map(providers.flatMap(({ models }) => models.map((one) => [one.model, one] as const)));
    const actions = (model: string): Pick<ListRow, "buttons" | "enter"> => ({
      buttons: inSession ? [button("star", t("Use for new sessions, too"), { leave: () => this.use(model, { sessionId, forNew: true }) })] : [],
      enter: () => this.use(model, { sessionId, forNew: !inSession }),
    });
    const row = (model: string): ListRow => {
      const offered = known.get(model);
      return { label: `${model === now ? "$(check) " : ""}${model}`, description: offered ? described(offered) : "", ...actions(model) };
    };
    const separator = (label: string): ListRow => ({ label, kind: vscode.QuickPickItemKind.Separator });
    const name = typed.trim();
    const written = /^[\w.-]+\/\S+$/.test(name) && !known.has(name) && !recent.includes(name);
    return [
      ...(written ? [{ label: t("Use {0}", name), alwaysShow: true, ...actions(name) }] : []),
      ...(recent.length > 0 ? [separator(t("recent")), ...recent.map(row)] : []),
      ...providers
        .filter(({ connected }) => connected)
        .flatMap(({ name: label, models, error }) => [
          separator(error ? `${label}: ${error}` : label),
          ...models.filter(({ model }) => model && !recent.includes(model)).map(({ model }) => row(model)),
        ]),
      separator(""),
      { label: `$(key) ${t("Connect a Model…")}`, alwaysShow: true, enter: () => this.connect() },
      { label: `$(lightbulb) ${t("Thinking: {0}…", thinkingWord(this.thinking()))}`, alwaysShow: true, enter: () => this.chooseThinking() },
    ];
  }

  /** Choose how many tokens models may use for thinking. */
  async chooseThinking(): Promise<void> {
    const now = this.thinking();
    const picked = await vscode.window.showQuickPick(
      THINKING.map(({ tokens, label, detail }) => ({ label, detail, description: tokens === now ? t("current") : "", tokens })),
      { title: t("Thinking"), placeHolder: t("Applies to all sessions, from the next request on") },
    );
    if (!picked || picked.tokens === now) return;
    await configure("thinkingTokens", picked.tokens);
    vscode.window.setStatusBarMessage(t("Goalwright: thinking {0}", picked.label), SHOWN_MS);
  }

  /** Warn about an invalid model setting, if the provider can detect it. */
  async checkSetting(): Promise<void> {
    const model = setting("model");
    if (!model) return;
    const { problem } = await this.parts.daemon.request("goalwright/model/check", { model });
    if (!problem) return;
    const choose = t("Choose Model…");
    if ((await notify("warning", problem, choose)) === choose) await this.choose();
  }

  private async use(model: string, { sessionId, forNew }: { sessionId: string | undefined; forNew: boolean }): Promise<void> {
    const { daemon } = this.parts;
    const { problem } = await daemon.request("goalwright/model/check", { model });
    if (problem) {
      const anyway = t("Use Anyway");
      const choice = await notify("warning", problem, anyway, t("Choose Another"));
      if (choice === undefined) return;
      if (choice !== anyway) return this.choose();
    }
    if (sessionId !== undefined) await daemon.request("goalwright/session/set", { sessionId, model });
    if (forNew) await configure("model", model);
    await this.remember(model);
    const text = sessionId === undefined ? t("Goalwright: {0} for new sessions", model) : forNew ? t("Goalwright: {0} for this session and new ones", model) : t("Goalwright: {0} for this session", model);
    vscode.window.setStatusBarMessage(text, SHOWN_MS);
  }

  private recent(now: string): string[] {
    const kept = this.parts.globalState.get<string[]>(RECENT, []);
    return now && !now.startsWith("demo/") ? [now, ...kept.filter((one) => one !== now)] : kept;
  }

  private async remember(model: string): Promise<void> {
    await this.parts.globalState.update(RECENT, [model, ...this.recent("").filter((one) => one !== model)].slice(0, RECENT_KEPT));
  }

  private thinking(): number {
    return vscode.workspace.getConfiguration("goalwright").get<number | null>("thinkingTokens", null) ?? 0;
  }

  private async listed(provider: string | null = null, env: Record<string, string> = {}): Promise<readonly ModelProvider[]> {
    return (await this.parts.daemon.request("goalwright/model/list", { provider, env })).providers;
  }

  private async provider(id: string | undefined): Promise<ModelProvider | undefined> {
    const found = await this.listed(id ?? null);
    if (id !== undefined) return found[0];
    const { keys } = this.parts;
    let chosen: ModelProvider | undefined;
    const items = found.map((provider): ListRow => {
      const { name, keyVariable, urlVariable } = provider;
      const forget = async (): Promise<void> => {
        await keys.set({ [keyVariable]: undefined, ...(urlVariable ? { [urlVariable]: undefined } : {}) });
        vscode.window.setStatusBarMessage(t("Goalwright: the key of {0} was removed", name), SHOWN_MS);
      };
      const kept = keys.variables[keyVariable] || keys.variables[urlVariable];
      return {
        label: name,
        description: state(provider),
        buttons: kept ? [button("trash", t("Remove the key that VS Code keeps"), { leave: forget })] : [],
        enter: () => (chosen = provider),
      };
    });
    await liveList({ title: t("Connect a Model"), placeholder: t("Where do your models come from?") }, () => Promise.resolve(items));
    return chosen;
  }

  /** Ask for one of a provider's models, without the one that failed. */
  private async picked(provider: ModelProvider, failed = ""): Promise<string | undefined> {
    const others = provider.models.filter(({ model }) => model !== failed).map((one) => ({ label: one.model, description: described(one) }));
    if (others.length === 0) return this.typed(provider);
    return (await vscode.window.showQuickPick(others, { title: t("Model of {0}", provider.name) }))?.label;
  }

  /** Ask for the name of a model. */
  private async typed(provider: ModelProvider): Promise<string | undefined> {
    const name = await vscode.window.showInputBox({
      title: t("Model of {0}", provider.name),
      prompt: unlinked(provider.error || t("{0} lists no models. Enter the name of the one to use.", provider.name)),
      ignoreFocusOut: true,
      validateInput: (text) => (text.trim() ? undefined : t("Enter a name.")),
    });
    return name && `${provider.id}/${name.trim()}`;
  }

  private async tested(model: string, { env }: Entered): Promise<ModelTestResult> {
    return vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: unlinked(t("Testing {0}…", model)) },
      () => Promise.resolve(this.parts.daemon.request("goalwright/model/test", { model, env })),
    );
  }

  /** Store the entered variables, use the model for new sessions, and show its properties. */
  private async finish(model: string, { env, provider }: Entered, tested: ModelTestResult): Promise<void> {
    await this.parts.keys.set(env);
    await configure("model", model);
    await this.remember(model);
    const facts = provider.models.find((one: OfferedModel) => one.model === model) ?? tested;
    const other = t("Choose Another Model…");
    notify("info", t("Connected to {0}: {1}.", model, modelFacts(facts)), other).then(async (choice) => {
      if (choice === other) await this.choose();
    }).then(undefined, (error: unknown) => notify("error", asProblem(error).message));
  }

  /** Offer a way on after a failed test: another key, another model, or a retry. Undefined: cancel. */
  private async failed(model: string, entered: Entered, { error, errorKind }: ModelTestResult): Promise<Entered | undefined> {
    const [key, other, again] = [t("Change Key…"), t("Choose Another Model…"), t("Retry")];
    const wanted = errorKind === "auth" || errorKind === "no_key" ? [key] : [again, other];
    const choice = await notify("error", error, ...wanted);
    if (choice === key) return connectionOf(entered.provider, (env) => this.listed(entered.provider.id, env));
    if (choice === again) return entered;
    if (choice !== other) return undefined;
    const name = await this.picked(entered.provider, model);
    return name ? { ...entered, provider: { ...entered.provider, default: name } } : undefined;
  }
}

/** Return a model's own name, where it has another one, and its properties. */
function described(offered: OfferedModel): string {
  return offered.label ? `${offered.label} · ${modelFacts(offered)}` : modelFacts(offered);
}

function state({ connected, models, keyVariable, how, error }: ModelProvider): string {
  if (error) return error;
  if (connected) return models.length > 0 ? t("connected, {0} models", models.length) : t("connected");
  return keyVariable || how ? "" : t("not running");
}

async function configure(name: "model" | "thinkingTokens", value: string | number): Promise<void> {
  await vscode.workspace.getConfiguration("goalwright").update(name, value, vscode.ConfigurationTarget.Global);
}
