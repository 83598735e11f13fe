/** As much of VS Code's API as the tested parts touch. */
type Listener<T> = (value: T) => void;

export class EventEmitter<T> {
  private readonly listeners = new Set<Listener<T>>();

  readonly event = (listener: Listener<T>): { dispose(): void } => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };

  fire(value: T): void {
    for (const listener of this.listeners) listener(value);
  }

  dispose(): void {
    this.listeners.clear();
  }
}

export class Disposable {
  static from(...all: { dispose(): unknown }[]): Disposable {
    return new Disposable(() => {
      for (const one of all) one.dispose();
    });
  }

  constructor(private readonly call: () => void) {}

  dispose(): void {
    this.call();
  }
}

/** What was shown, for the test to look at. */
export const shown: string[] = [];

/** What the person answers, in order; nothing when the list is empty. */
export const answers: (string | undefined)[] = [];

const show = (text: string): Promise<undefined> => {
  shown.push(text);
  return Promise.resolve(undefined);
};

const ask = (question: string | undefined): Promise<string | undefined> => {
  shown.push(question ?? "");
  return Promise.resolve(answers.shift());
};

export class ThemeIcon {
  constructor(readonly id: string) {}
}

export enum LanguageModelChatMessageRole {
  User = 1,
  Assistant = 2,
}

export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}

export class LanguageModelThinkingPart {
  constructor(readonly value: string | string[]) {}
}

export class LanguageModelToolCallPart {
  constructor(readonly callId: string, readonly name: string, readonly input: unknown) {}
}

export class LanguageModelToolResultPart {
  constructor(readonly callId: string, readonly content: unknown[]) {}
}

export class LanguageModelDataPart {
  static image(data: Uint8Array, mimeType: string): LanguageModelDataPart {
    return new LanguageModelDataPart(data, mimeType);
  }

  constructor(readonly data: Uint8Array, readonly mimeType: string) {}
}

export class LanguageModelChatMessage {
  constructor(readonly role: LanguageModelChatMessageRole, readonly content: unknown[]) {}
}

export class LanguageModelError extends Error {
  static NotFound(message?: string): LanguageModelError {
    return new LanguageModelError(message, "NotFound");
  }

  constructor(message: string | undefined, readonly code: string, cause?: unknown) {
    super(message, { cause });
  }
}

export class CancellationTokenSource {
  readonly token = { isCancellationRequested: false };

  cancel(): void {
    this.token.isCancellationRequested = true;
  }

  dispose(): void {}
}

/** Models that extensions offer, and the event that tells of changes. */
export const chatModels: { vendor: string; id: string }[] = [];
export const chatModelsChanged = new EventEmitter<void>();

export const lm = {
  selectChatModels: ({ vendor }: { vendor?: string } = {}): Promise<unknown[]> => Promise.resolve(chatModels.filter((one) => vendor === undefined || one.vendor === vendor)),
  onDidChangeChatModels: chatModelsChanged.event,
};

export enum QuickPickItemKind {
  Separator = -1,
  Default = 0,
}

/** Commands that were run. */
export const ran: unknown[][] = [];

export const commands = {
  executeCommand: (...command: unknown[]) => {
    ran.push(command);
    return Promise.resolve(undefined);
  },
};

/** As much of an address as is joined and shown. */
export const Uri = {
  from: (parts: object) => ({ ...parts, toString: () => JSON.stringify(parts) }),
  joinPath: (base: { path: string }, ...parts: string[]) => {
    const path = [base.path, ...parts].join("/");
    return { path, fsPath: path };
  },
  parse: (value: string) => ({ scheme: value.split(":", 1)[0], authority: new URL(value).host, toString: () => value }),
};

export enum FileChangeType {
  Changed = 1,
}

export enum ViewColumn {
  Active = -1,
  Beside = -2,
}

/** Addresses that were opened outside. */
export const opened: string[] = [];

export enum UIKind {
  Desktop = 1,
  Web = 2,
}

export const l10n = { bundle: undefined };

export const env = {
  language: "en",
  /** Nothing of the machine that runs the tests is asked to notify. */
  remoteName: "tests",
  uiKind: UIKind.Desktop,
  clipboard: {
    text: "",
    writeText: (text: string) => {
      env.clipboard.text = text;
      return Promise.resolve();
    },
  },
  openExternal: (uri: { toString(): string }) => {
    opened.push(uri.toString());
    return Promise.resolve(true);
  },
};

/** A panel with a page in it: what is posted to the page is kept, and the test says what the page says. */
export class FakePanel {
  readonly posted: { type: string; [field: string]: unknown }[] = [];
  readonly said = new EventEmitter<unknown>();
  readonly closed = new EventEmitter<void>();
  readonly onDidDispose = this.closed.event;
  iconPath: unknown;
  revealed = 0;
  readonly webview = {
    cspSource: "self:",
    html: "",
    options: {},
    onDidReceiveMessage: this.said.event,
    asWebviewUri: (uri: { path: string }) => `web:${uri.path}`,
    postMessage: (message: { type: string }) => {
      this.posted.push(message);
      return Promise.resolve(true);
    },
  };

  reveal(): void {
    this.revealed++;
  }

  dispose(): void {
    this.closed.fire();
  }
}

/** Other extensions. */
export const extensions = { getExtension: (_id: string): unknown => undefined };

/** Panels that were made, the last one at the end. */
export const panels: FakePanel[] = [];

/** File systems that were registered, by scheme. */
export const fileSystems = new Map<string, unknown>();

export const workspace = {
  isTrusted: true,
  workspaceFolders: undefined,
  textDocuments: [],
  onDidChangeTextDocument: new EventEmitter<unknown>().event,
  registerTextDocumentContentProvider: () => new Disposable(() => undefined),
  registerFileSystemProvider: (scheme: string, provider: unknown) => {
    fileSystems.set(scheme, provider);
    return new Disposable(() => fileSystems.delete(scheme));
  },
  /** Only what was set by `update`. */
  getConfiguration: () => ({
    get: <T>(name: string, otherwise: T): T => (configured.has(name) ? (configured.get(name) as T) : otherwise),
    update: async (name: string, value: unknown) => void configured.set(name, value),
  }),
};

/** Settings that were changed. */
export const configured = new Map<string, unknown>();

export enum ConfigurationTarget {
  Global = 1,
}

export enum ProgressLocation {
  Notification = 15,
}

/** VS Code's secret storage. */
export class FakeSecrets {
  readonly values = new Map<string, string>();
  private readonly changed = new EventEmitter<{ key: string }>();
  readonly onDidChange = this.changed.event;

  get = async (key: string): Promise<string | undefined> => this.values.get(key);

  store = async (key: string, value: string): Promise<void> => {
    this.values.set(key, value);
    this.changed.fire({ key });
  };
}

/** A field as the person meets it. */
export class FakeInputBox {
  title = "";
  prompt = "";
  placeholder = "";
  password = false;
  value = "";
  validationMessage: string | undefined = undefined;
  buttons: readonly unknown[] = [];
  private readonly changed = new EventEmitter<string>();
  private readonly accepted = new EventEmitter<void>();
  private readonly hidden = new EventEmitter<void>();
  private readonly triggered = new EventEmitter<unknown>();
  readonly onDidChangeValue = this.changed.event;
  readonly onDidAccept = this.accepted.event;
  readonly onDidHide = this.hidden.event;
  readonly onDidTriggerButton = this.triggered.event;

  show(): void {}

  dispose(): void {}

  hide(): void {
    this.hidden.fire();
  }

  type(value: string): void {
    this.value = value;
    this.changed.fire(value);
  }

  enter(): void {
    this.accepted.fire();
  }

  press(button: number): void {
    this.triggered.fire(this.buttons[button]);
  }
}

/** Fields that were opened, the last one at the end. */
export const boxes: FakeInputBox[] = [];

interface Row {
  label: string;
  description?: string;
  detail?: string;
  buttons?: readonly unknown[];
}

/** A list as the person meets it. */
export class FakeQuickPick {
  title = "";
  placeholder = "";
  busy = false;
  matchOnDescription = false;
  matchOnDetail = false;
  items: readonly Row[] = [];
  value = "";
  private readonly changed = new EventEmitter<string>();
  readonly onDidChangeValue = this.changed.event;
  selectedItems: readonly Row[] = [];
  private readonly hidden = new EventEmitter<void>();
  private readonly accepted = new EventEmitter<void>();
  private readonly triggered = new EventEmitter<{ item: Row; button: unknown }>();
  readonly onDidHide = this.hidden.event;
  readonly onDidAccept = this.accepted.event;
  readonly onDidTriggerItemButton = this.triggered.event;

  show(): void {}

  dispose(): void {}

  hide(): void {
    this.hidden.fire();
  }

  type(value: string): void {
    this.value = value;
    this.changed.fire(value);
  }

  row(label: string): Row {
    const found = this.items.find((item) => item.label === label);
    if (!found) throw new Error(`no row ${label} in ${this.items.map((item) => item.label).join(", ")}`);
    return found;
  }

  press(label: string, button = 0): void {
    const item = this.row(label);
    this.triggered.fire({ item, button: item.buttons?.[button] });
  }

  enter(label: string): void {
    this.selectedItems = [this.row(label)];
    this.accepted.fire();
  }
}

export class TabInputText {
  constructor(readonly uri: unknown) {}
}

export class TabInputTextDiff {
  constructor(readonly original: unknown, readonly modified: unknown) {}
}

/** Lists that were opened, the last one at the end. */
export const picks: FakeQuickPick[] = [];

export const window = {
  state: { focused: true },
  activeTextEditor: undefined,
  onDidChangeTextEditorSelection: new EventEmitter<unknown>().event,
  tabGroups: {
    all: [],
    activeTabGroup: { activeTab: undefined },
    onDidChangeTabs: new EventEmitter<unknown>().event,
    onDidChangeTabGroups: new EventEmitter<unknown>().event,
  },
  createWebviewPanel: () => {
    panels.push(new FakePanel());
    return panels.at(-1);
  },
  registerWebviewPanelSerializer: () => new Disposable(() => undefined),
  registerWebviewViewProvider: () => new Disposable(() => undefined),
  createInputBox: () => {
    boxes.push(new FakeInputBox());
    return boxes.at(-1);
  },
  withProgress: <T>(_options: unknown, work: () => Promise<T>): Promise<T> => work(),
  createQuickPick: () => {
    picks.push(new FakeQuickPick());
    return picks.at(-1);
  },
  /** The answer is the row whose label has the given text in it; of several, all rows whose label the text names. */
  showQuickPick: async (rows: Row[], options: { title?: string; canPickMany?: boolean }) => {
    const answer = await ask(options.title);
    if (options.canPickMany) return answer === undefined ? undefined : rows.filter((row) => answer.split(", ").includes(row.label));
    return rows.find((row) => answer !== undefined && row.label.includes(answer));
  },
  /** Without buttons nobody waits for an answer. */
  showErrorMessage: (text: string, ...buttons: unknown[]) => (buttons.length > 0 ? ask(text) : show(text)),
  showInformationMessage: (text: string, ...buttons: unknown[]) => (buttons.length > 0 ? ask(text) : show(text)),
  setStatusBarMessage: show,
  showInputBox: (options: { title?: string }) => ask(options.title),
  showWarningMessage: (question: string, first: string | { detail: string }, ...buttons: string[]) =>
    ask(typeof first === "string" ? question : [question, first.detail, `[${buttons.join("] [")}]`].join("\n")),
};

/** What `vscode-languageclient` extends. */
class Extended {}
export {
  Extended as CallHierarchyItem,
  Extended as CancellationError,
  Extended as CodeAction,
  Extended as CodeLens,
  Extended as CompletionItem,
  Extended as Diagnostic,
  Extended as DocumentLink,
  Extended as InlayHint,
  Extended as SymbolInformation,
  Extended as TypeHierarchyItem,
};
