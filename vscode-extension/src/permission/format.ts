/** Texts for permissions: rules, modes, scopes, lists. Pure. */
import type { JobInfo, ListedRule, Mode, PermissionRequest, Reason, Rule, RuleSource, Scope, StoredGrant, Trust } from "../protocol.gen";
import { ago } from "../amounts";
import { visibleLine } from "../chat/webview/visible";
import { t } from "../l10n";

const WHOSE: Readonly<Record<RuleSource, string>> = {
  shipped: t("the built-in rule"),
  user: t("your rule"),
  editor: t("your setting"),
  workspace: t("this folder's rule"),
  granted: t("what you granted"),
  session: t("what you granted in this session"),
  mode: t("the mode"),
  agent: t("the agent's rule"),
  branch: t("the branch's limits"),
  protected: t("protected:"),
};

/** Name the source of a rule; sources that only a newer daemon knows stay as they are. */
export function whose({ source }: Rule): string {
  return Object.hasOwn(WHOSE, source) ? WHOSE[source] : source;
}

/** Format a rule: `bash: * → ask`. Protected paths are not rules of a list, so their pattern is the text. */
export function ruleText({ source, permission, pattern, action }: Rule): string {
  return source === "protected" ? pattern : `${permissionName(permission)}: ${pattern} → ${action}`;
}

const NEEDS: Readonly<Record<string, string>> = {
  bash: t("Commands need your approval"),
  edit: t("Edits need your approval"),
  read: t("Reading this needs your approval"),
  webfetch: t("Fetching web pages needs your approval"),
  task: t("Starting a sub-agent needs your approval"),
  external_directory: t("Files outside this folder need your approval"),
};

/** Explain why built-in rules ask, without naming the rule. */
export function needs(permission: string): string {
  return Object.hasOwn(NEEDS, permission) ? (NEEDS[permission] ?? "") : t("This needs your approval");
}

/** Folders that are cut from file names on display. */
export interface Places {
  home: string;
  /** Goalwright's folder; empty when there is none. */
  folder: string;
}

/** Shorten a file's path: relative to the folder, or below `~`. */
export function shortPath(file: string, { home, folder }: Places): string {
  const below = (root: string): string | undefined =>
    root !== "" && file.startsWith(root) && /^[\\/]./.test(file.slice(root.length)) ? file.slice(root.length + 1) : undefined;
  const [inFolder, inHome] = [below(folder), below(home)];
  return inFolder ?? (inHome === undefined ? file : `~/${inHome}`);
}

const VERBS: Readonly<Record<string, string>> = {
  read: t("reads"),
  edit: t("changes"),
  bash: t("runs"),
  ls: t("lists"),
  glob: t("looks for"),
  grep: t("searches"),
  symbols: t("asks language servers:"),
  diagnostics: t("looks for problems in"),
  webfetch: t("fetches"),
  private_address: t("reaches the private address"),
  task: t("starts"),
  external_directory: t("accesses a file outside this folder:"),
  doom_loop: t("repeats:"),
};

const NAMES: Readonly<Record<string, string>> = {
  hand_over: t("agent hand-off"),
  doom_loop: t("repeated calls"),
  external_directory: t("files outside this folder"),
  private_address: t("private addresses"),
};

/** Return the name of a permission in lists; usually the tool's name. */
function permissionName(permission: string): string {
  return Object.hasOwn(NAMES, permission) ? (NAMES[permission] ?? "") : permission;
}

/** Return the verb of a permission before its target: `reads`, `runs`. */
export function verb(permission: string): string {
  return Object.hasOwn(VERBS, permission) ? (VERBS[permission] ?? "") : `${permission}:`;
}

export type ReasonLine = ReturnType<typeof reasonLines>[number];

/** Return a request's actions with their rules; actions with the same rule and origin share one line. */
export function reasonLines(request: PermissionRequest) {
  const { reasons, permission, targets, rule, files } = request;
  if (reasons.length === 0) return [{ verb: "", targets: [], rule, why: "" }];
  const groups = new Map<string, [Reason, ...Reason[]]>();
  for (const reason of reasons) {
    const key = JSON.stringify([reason.permission, reason.rule, reason.why]);
    const group = groups.get(key);
    if (group) group.push(reason);
    else groups.set(key, [reason]);
  }
  const all = [...groups.values()];
  // The card shows a single command or the files' diffs anyway.
  const asked = new Set(all.length === 1 ? reasons.filter((one) => one.permission === permission).map(({ target }) => target) : []);
  const obvious = (targets.length === 1 || files.length > 0) && targets.length > 0 && targets.every((target) => asked.has(target));
  return all.map((group) => ({
    /** The action, such as `reads`; empty when the card shows it anyway. */
    verb: obvious ? "" : verb(group[0].permission),
    targets: obvious ? [] : [...new Set(group.map(({ target }) => target))],
    rule: group[0].rule,
    /** Origin of the target, such as `argument of cat`. */
    why: group[0].why,
  }));
}

/** The daemon's mark for characters omitted from a title (until version 0.1 only at the end). */
const LEFT_OUT = /…\(\d+ more characters\)…|… \(\d+ more characters\)$/;

/** Counts at the end of a title. The card shows them for each file, where they follow the user's choices. */
const COUNTS = /\s*\(\+\d+ [-−]\d+\)$/;

/** Return a request's title without the command, which the card shows in full (`Run`), and without a diff's counts. */
export function headline({ title, detail, files }: Pick<PermissionRequest, "title" | "detail" | "files">): string {
  if (files.length > 0) return title.replace(COUNTS, "");
  const command = visibleLine(detail.trim());
  const at = command ? title.indexOf(command.slice(0, 40)) : -1;
  if (at < 0 || !abridges(title.slice(at), command)) return title;
  return title.slice(0, at).replace(/[:\s]+$/, "") || title;
}

type ScopeWords = Record<"label" | "explanation", string> & { scope: Scope };

const SCOPES: readonly ScopeWords[] = [
  { scope: "session", label: t("This session"), explanation: t("Applies to this session, also after a restart.") },
  {
    scope: "workspace",
    label: t("This workspace"),
    explanation: t("Applies to all your sessions in this folder, on this machine. Nothing is written to the folder."),
  },
  { scope: "user", label: t("Everywhere"), explanation: t("Applies to every folder you open, on this machine.") },
];

/** Permissions that concern one run, so granting them beyond the session makes no sense. */
const SESSION_ONLY: ReadonlySet<string> = new Set(["budget", "doom_loop"]);

export function scopesFor(permissions: readonly string[]): readonly ScopeWords[] {
  return permissions.some((one) => SESSION_ONLY.has(one)) ? SCOPES.filter(({ scope }) => scope === "session") : SCOPES;
}

function scopeLabel(scope: Scope): string {
  return SCOPES.find((one) => one.scope === scope)?.label ?? scope;
}

export interface ModeWords {
  mode: Mode;
  label: string;
  /** Name of a VS Code icon. */
  icon: string;
  detail: string;
}

const ASK: ModeWords = { mode: "ask", label: t("Approve each step"), icon: "question", detail: t("Asks before it changes a file or runs a command, unless a rule allows it.") };

export const MODES: readonly ModeWords[] = [
  ASK,
  { mode: "accept-edits", label: t("Accept edits"), icon: "edit", detail: t("Edits files without asking; commands still need approval.") },
  { mode: "plan", label: t("Read only"), icon: "book", detail: t("Reads and plans. Changes no files and runs only read-only commands.") },
  {
    mode: "auto",
    label: t("Autonomous"),
    icon: "zap",
    detail: t("Runs without asking in trusted folders, except for secrets and destructive commands."),
  },
];

/** Return the texts of a mode; a mode that only a newer daemon knows has its id as label. */
export function modeWords(mode: Mode): ModeWords {
  return MODES.find((one) => one.mode === mode) ?? { ...ASK, mode, label: mode };
}

const TRUST: Readonly<Record<Trust, string>> = {
  trusted: t("trusted folder"),
  unknown: t("folder not trusted"),
  restricted: t("restricted mode"),
};

export function trustWords(trust: Trust): string {
  return Object.hasOwn(TRUST, trust) ? TRUST[trust] : trust;
}

/** Texts of a row in a list. */
export interface Row {
  label: string;
  description: string;
  detail: string;
}

/** Describe a grant: `bash: git log *`, its scope, and when and by whom it was granted. `now` in milliseconds. */
export function grantRow(grant: StoredGrant, now: number): Row {
  const { grantedAt, by, title } = grant;
  const when = grantedAt ? ago(grantedAt, now) : "";
  const given = when && by ? t("Granted {0} by {1}", when, by) : when ? t("Granted {0}", when) : by ? t("Granted by {0}", by) : "";
  return {
    label: `${permissionName(grant.permission)}: ${grant.pattern}`,
    description: scopeLabel(grant.scope),
    detail: [given, title].filter(Boolean).join(" — "),
  };
}

export function ruleRow(rule: ListedRule, places: Places): Row {
  const description = [rule.action, whose(rule).replace(/^the |[:：]$/g, ""), rule.idle && t("gives no permission: the folder is not trusted")];
  return { label: `${permissionName(rule.permission)}: ${rule.pattern}`, description: description.filter(Boolean).join(" · "), detail: shortPath(rule.file, places) };
}

function jobState({ exitCode }: JobInfo): string {
  if (exitCode === null) return t("running");
  if (exitCode === 0) return t("done");
  return exitCode < 0 ? t("stopped by signal {0}", -exitCode) : t("ended with {0}", exitCode);
}

/** Describe a background command: the command, its state, and its output file. */
export function jobRow(job: JobInfo, now: number): Row {
  const began = ago(job.startedAt, now);
  return { label: job.command.replace(/\s+/g, " "), description: [jobState(job), began && t("started {0}", began)].filter(Boolean).join(" · "), detail: job.outputFile ?? "" };
}

/** Return the line for the transcript: `No longer allowed: bash: git log *`. */
export function forgottenLine(grants: readonly { permission: string; pattern: string }[]): string {
  return t("No longer allowed: {0}", grantNames(grants));
}

const REMEMBERED: Readonly<Record<Scope, (names: string) => string>> = {
  session: (names) => t("Always allowed in this session: {0}", names),
  workspace: (names) => t("Always allowed in this workspace: {0}", names),
  user: (names) => t("Always allowed everywhere: {0}", names),
};

/** Return the line for the transcript: `Always allowed in this workspace: bash: git log *`. */
export function rememberedLine(grants: readonly { permission: string; pattern: string }[], scope: Scope): string {
  return REMEMBERED[scope](grantNames(grants));
}

function grantNames(grants: readonly { permission: string; pattern: string }[]): string {
  return grants.map(({ permission, pattern }) => `${permissionName(permission)}: ${pattern}`).join(", ");
}

/** Return true if a text is the command, with parts omitted only where marked. */
function abridges(text: string, command: string): boolean {
  const [first = "", ...others] = text.split(LEFT_OUT);
  let at = first.length;
  if (!command.startsWith(first) || (others.length === 0 && at < command.length)) return false;
  for (const piece of others) {
    const found = piece ? command.indexOf(piece, at) : at;
    if (found < 0) return false;
    at = found + piece.length;
  }
  return true;
}
