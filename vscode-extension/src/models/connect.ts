import * as vscode from "vscode";
import { t } from "../l10n";
import type { ModelProvider } from "../protocol.gen";
import { addressProblem, EXAMPLE_URLS, keyProblem, pastedKey } from "./format";
import { notify, unlinked } from "../notify";

/** The entered variables, and the provider as it answered to them. */
export interface Entered {
  env: Record<string, string>;
  provider: ModelProvider;
}

/** Request the providers' models with the entered variables. */
type Listing = (env: Record<string, string>) => Promise<readonly ModelProvider[]>;

const START: Readonly<Record<string, { how: string; page: string }>> = {
  vscode: { how: t("No extension of this window offers a language model. Install one, for example GitHub Copilot, and sign in to it."), page: "" },
  ollama: { how: t("Ollama does not answer on this machine. Start it with `ollama serve`, and get a model with `ollama pull qwen3-coder`."), page: "https://ollama.com/download" },
  lm_studio: { how: t("LM Studio does not answer on this machine. Start its local server and load a model."), page: "https://lmstudio.ai" },
};

/** Ask for a provider's key or address until it accepts them. Undefined when the user cancels. */
export async function connectionOf(provider: ModelProvider, list: Listing): Promise<Entered | undefined> {
  if (!provider.keyVariable) return running(provider, list);
  const env = provider.urlVariable ? await askAddress(provider) : {};
  if (env === undefined) return undefined;
  let problem = "";
  for (;;) {
    const key = await askKey(provider, problem);
    if (key === undefined) return undefined;
    const entered = { ...env, ...(key ? { [provider.keyVariable]: key } : {}) };
    // Not as a notification: it stays for a moment, and of more than three VS Code hides the newest, which is the result.
    const [found] = await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Window, title: t("Connecting to {0}…", provider.name) },
      () => list(entered),
    );
    if (!found) return undefined;
    if (!found.errorKind) return { env: entered, provider: found };
    if (found.errorKind !== "auth" && !(await retries(found.error))) return undefined;
    problem = found.error;
  }
}

async function retries(error: string): Promise<boolean> {
  const again = t("Retry");
  return (await notify("error", error, again)) === again;
}

async function askAddress({ id, name, urlVariable }: ModelProvider): Promise<Record<string, string> | undefined> {
  const url = await vscode.window.showInputBox({
    title: t("Connect to {0} (1/2)", name),
    prompt: t("The address of its API, for example {0}", EXAMPLE_URLS[id] ?? "http://localhost:8000/v1"),
    ignoreFocusOut: true,
    validateInput: addressProblem,
  });
  return url === undefined ? undefined : { [urlVariable]: url.trim() };
}

/** Wait for a server on this machine, and explain how to start it if it does not answer. */
async function running(provider: ModelProvider, list: Listing): Promise<Entered | undefined> {
  for (let found: ModelProvider | undefined = provider; found; [found] = await list({})) {
    if (found.connected) return { env: {}, provider: found };
    const { how, page } = START[found.id] ?? { how: `${found.name}: ${found.how || found.error}.`, page: "" };
    const [again, get] = [t("Retry"), t("Download {0}", found.name)];
    const choice = await notify("warning", how, again, ...(page ? [get] : []));
    if (choice === get) await vscode.env.openExternal(vscode.Uri.parse(page));
    if (choice === undefined) return undefined;
  }
  return undefined;
}

/** Ask for the key; empty where none is needed. Pasting a complete key submits it. */
function askKey(provider: ModelProvider, problem: string): Promise<string | undefined> {
  const input = vscode.window.createInputBox();
  const page: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("link-external"), tooltip: t("Open the page to create a key") };
  const optional = provider.id === "custom";
  input.title = provider.urlVariable ? t("Connect to {0} (2/2)", provider.name) : t("Connect to {0}", provider.name);
  input.prompt = optional
    ? t("API key; empty if the server needs none. It is kept in VS Code's secret storage.")
    : t("Paste an API key. It is kept in VS Code's secret storage.");
  input.placeholder = provider.keyVariable;
  input.password = true;
  input.ignoreFocusOut = true;
  input.buttons = provider.keyPage ? [page] : [];
  input.validationMessage = unlinked(problem) || undefined;
  return new Promise((resolve) => {
    let before = "";
    const accept = (): void => {
      const key = input.value.trim();
      const wrong = key ? keyProblem(provider, key) : optional ? undefined : t("Paste a key, or press Escape.");
      if (wrong) {
        input.validationMessage = wrong;
        return;
      }
      resolve(key);
      input.hide();
    };
    input.onDidChangeValue((value) => {
      input.validationMessage = undefined;
      const pasted = pastedKey(provider.id, before, value);
      before = value;
      if (pasted) accept();
    });
    input.onDidAccept(accept);
    input.onDidTriggerButton(() => void vscode.env.openExternal(vscode.Uri.parse(provider.keyPage)));
    input.onDidHide(() => {
      resolve(undefined);
      input.dispose();
    });
    input.show();
  });
}
