import * as vscode from "vscode";
import type { EditorDiagnosticsParams, EditorDiagnosticsResult, EditorFileDiagnostics } from "../protocol.gen";
import { type Editor, type FileAnswer, ProblemWatcher, type Pulled, realClock } from "./watcher";
import type { Diagnostic, DiagnosticSeverity, Range } from "vscode";
import { t } from "../l10n";

/** The command with which VS Code's TypeScript extension passes a request to its server. The server answers in order. */
const ASK_TYPESCRIPT = "typescript.tsserverRequest";
const TYPESCRIPT = new Map([
  ["typescript", "ts"],
  ["typescriptreact", "ts"],
  ["javascript", "js"],
  ["javascriptreact", "js"],
]);

/** Collect the problems that the user's extensions show, for the daemon. */
export class EditorProblems implements vscode.Disposable {
  private readonly watcher: ProblemWatcher<vscode.Diagnostic>;
  private readonly subscriptions: vscode.Disposable;

  constructor() {
    this.watcher = new ProblemWatcher(vsCode, realClock);
    for (const document of vscode.workspace.textDocuments) this.opened(document, true);
    this.subscriptions = vscode.Disposable.from(
      vscode.workspace.onDidOpenTextDocument((document) => this.opened(document, false)),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => {
        if (uri.scheme === "file") this.watcher.closed(uri.toString());
      }),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        // VS Code fires this event without changes, too, for example on save.
        if (document.uri.scheme === "file" && contentChanges.length) this.watcher.changed(document.uri.toString());
      }),
      vscode.languages.onDidChangeDiagnostics(({ uris }) => {
        this.watcher.reported(uris.filter(({ scheme }) => scheme === "file").map(String));
      }),
    );
  }

  /** Handle `goalwright/editor/diagnostics`. */
  async answer(params: EditorDiagnosticsParams): Promise<EditorDiagnosticsResult> {
    // The daemon and VS Code may write the same URI differently.
    const asked = new Map(params.files.map((file) => [vscode.Uri.parse(file.uri).toString(), file]));
    const files = [...asked].map(([uri, { textHash }]) => ({ uri, textHash }));
    const answer = await this.watcher.ask({ ...params, files });
    return {
      ...answer,
      files: answer.files.map((file) => ({ ...wire(file), uri: asked.get(file.uri)?.uri ?? file.uri })),
      others: answer.others.map(wire),
    };
  }

  dispose(): void {
    this.subscriptions.dispose();
    this.watcher.dispose();
  }

  private opened({ uri, languageId }: vscode.TextDocument, before: boolean): void {
    if (uri.scheme === "file") this.watcher.opened(uri.toString(), languageId, before);
  }
}

function wire({ uri, freshness, diagnostics, before }: FileAnswer<vscode.Diagnostic>): EditorFileDiagnostics {
  return { uri, freshness, diagnostics: chosen(diagnostics).map(toLsp), before: before && chosen(before).map(toLsp) };
}

interface Manifest {
  main?: string;
  browser?: string;
  activationEvents?: string[];
  contributes?: { languages?: { id?: string }[] };
}

/** Return the languages that an extension declares. One with only a grammar or a theme reports no problems, so it has none. */
function languagesOf({ id, packageJSON }: vscode.Extension<unknown>): string[] {
  const { main, browser, activationEvents, contributes } = packageJSON as Manifest;
  if ((!main && !browser) || id === "goalwright.goalwright") return [];
  const named = (activationEvents ?? []).flatMap((event) => /^onLanguage:(.+)$/.exec(event)?.[1] ?? []);
  return [...named, ...(contributes?.languages ?? []).flatMap((language) => language.id ?? [])];
}

const vsCode: Editor<vscode.Diagnostic> = {
  open: async (uri) => void (await vscode.workspace.openTextDocument(vscode.Uri.parse(uri))),
  text: (uri) => vscode.workspace.textDocuments.find((open) => open.uri.toString() === uri)?.getText(),
  problems: (uri) => vscode.languages.getDiagnostics(vscode.Uri.parse(uri)),
  everything: () => vscode.languages.getDiagnostics().map(([uri, found]) => [uri.toString(), found] as const),
  owner: (language) => vscode.extensions.all.some((extension) => languagesOf(extension).includes(language)),
  pull: (uri, language) => {
    const source = TYPESCRIPT.get(language);
    if (source === undefined || !validates(language)) return undefined;
    return askTypeScript(vscode.Uri.parse(uri), source);
  },
};

/** Return false if TypeScript's validation is off, for example because the user checks with Flow. */
function validates(language: string): boolean {
  const own = language.startsWith("typescript") ? "typescript" : "javascript";
  const [now, before] = [vscode.workspace.getConfiguration("js/ts"), vscode.workspace.getConfiguration(own)];
  return now.get("validate.enabled", true) && before.get("validate.enable", true);
}

/**
 * Ask VS Code's TypeScript extension for problems: it fires no event when a file stays clean, and it checks only files
 * in tabs. Throws when it is disabled or replaced by another extension.
 */
async function askTypeScript(file: vscode.Uri, source: string): Promise<Pulled<vscode.Diagnostic>> {
  const kinds = ["syntacticDiagnosticsSync", "semanticDiagnosticsSync"];
  const answers = await Promise.all(kinds.map((kind) => vscode.commands.executeCommand(ASK_TYPESCRIPT, kind, { file })));
  const items = answers.flatMap((answer) => {
    const found = ofTypeScript(answer, source);
    if (!found) throw new Error(t("TypeScript did not answer."));
    return found;
  });
  return { items, replaces: (shown) => shown.source === source && shown.severity !== vscode.DiagnosticSeverity.Hint };
}

/** VS Code's own limit for one file. */
const MOST_OF_A_FILE = 1_000;

/** Convert to LSP's Diagnostic, limited to the fields that the daemon reads. */
export function toLsp(found: Diagnostic): Record<string, unknown> {
  const code = typeof found.code === "object" ? found.code.value : found.code;
  return {
    range: plainRange(found.range),
    severity: (found.severity as number) + 1,
    message: found.message,
    ...(found.source === undefined ? {} : { source: found.source }),
    ...(code === undefined ? {} : { code }),
  };
}

/** Remove Goalwright's own diagnostics, and limit the number; the most severe ones are kept. */
export function chosen(found: readonly Diagnostic[]): readonly Diagnostic[] {
  const others = found.filter(({ source }) => !/^goalwright\b/i.test(source ?? ""));
  if (others.length <= MOST_OF_A_FILE) return others;
  return others.sort((one, other) => one.severity - other.severity).slice(0, MOST_OF_A_FILE);
}

function plainRange({ start, end }: Range): unknown {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}

/** A diagnostic from TypeScript's server: lines and offsets count from 1. */
interface ServerDiagnostic {
  start?: { line: number; offset: number };
  end?: { line: number; offset: number };
  text?: string;
  category?: string;
  code?: number;
  source?: string;
}

/** VS Code's `DiagnosticSeverity` by the names of TypeScript's server. */
const SEVERITIES: Readonly<Record<string, DiagnosticSeverity>> = { error: 0, warning: 1, suggestion: 3 };

/** Parse an answer of TypeScript's server into diagnostics; undefined if it has none. */
export function ofTypeScript(answer: unknown, source: string): Diagnostic[] | undefined {
  const { type, body } = (answer ?? {}) as { type?: unknown; body?: unknown };
  if (type !== "response" || !Array.isArray(body)) return undefined;
  return (body as ServerDiagnostic[]).map((found) => {
    const start = { line: (found.start?.line ?? 1) - 1, character: (found.start?.offset ?? 1) - 1 };
    const end = found.end ? { line: found.end.line - 1, character: found.end.offset - 1 } : start;
    return {
      range: { start, end } as Range,
      severity: SEVERITIES[found.category ?? "error"] ?? 2,
      message: found.text ?? "",
      source: found.source ?? source,
      ...(found.code === undefined ? {} : { code: found.code }),
    };
  });
}
