import type { Diagnostic, DiagnosticSeverity, Range } from "vscode";

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
