import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { duration } from "../../amounts";
import { changeLabel } from "../../history/format";
import type { GoalTree, HistoryChange, ToolCallPart } from "../../protocol.gen";
import { readsWords } from "../../session/lines";
import { planChanges } from "../../session/plan";
import type { SessionState } from "../../session/state";
import { argumentsOf, type Found, foundOf, type Listing, listingOf, type ProblemLine, type ToolState, toolView, type ToolView, uncounted } from "../../session/tools";
import { Folded, IconButton, TextButton, Verbatim } from "./buttons";
import { spans, variables } from "./ansi";
import { Counts, Diff, FilePath } from "./diff";
import { useOpen } from "./hooks";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { PlanChanges } from "./plan";
import { ModelSays } from "./reasons";
import { visible, visibleLine } from "./visible";
import { highlight } from "./highlight";
import { t } from "../../l10n";

/** The icon and the word for each state, and a remark after the title where the icon alone does not make the state clear. */
const STATES: Record<ToolState, { icon: IconName; word: string; remark?: string }> = {
  pending: { icon: "pending", word: t("pending") },
  running: { icon: "running", word: t("running") },
  "waiting for approval": { icon: "waiting", word: t("waiting for approval"), remark: t("waiting") },
  done: { icon: "check", word: t("done") },
  failed: { icon: "cross", word: t("failed"), remark: t("failed") },
  denied: { icon: "denied", word: t("rejected"), remark: t("rejected") },
  canceled: { icon: "denied", word: t("stopped") },
};
/**
 * The verb of each tool, and the first word of the daemon's titles where it differs from the tool's name. `light`: it only
 * reads, or changes the plan, whose changes have their own view.
 */
const TOOLS: Record<string, { verb: string; said?: string; light?: boolean }> = {
  read: { verb: t("Read"), light: true },
  ls: { verb: t("List"), said: "list", light: true },
  glob: { verb: t("Find"), said: "find", light: true },
  grep: { verb: t("Search"), said: "search", light: true },
  edit: { verb: t("Edit") },
  write: { verb: t("Write") },
  patch: { verb: t("Patch") },
  bash: { verb: t("Run"), said: "run" },
  job: { verb: t("Job") },
  goal: { verb: t("Plan"), said: "plan", light: true },
  step: { verb: t("Plan"), said: "plan", light: true },
  read_progress: { verb: t("Progress"), said: "progress", light: true },
  diagnostics: { verb: t("Check"), said: "check", light: true },
  explore: { verb: t("Explore") },
  task: { verb: t("Task") },
  hand_over: { verb: t("Hand over"), said: "hand" },
  question: { verb: t("Ask"), said: "ask" },
};
/** Tools that change files; a title may begin with the name of another one. */
const WRITERS = new Set(["edit", "write", "patch"]);
const FIRST_PROBLEMS = 5;

interface CardProps {
  view: ToolView;
  change: HistoryChange | undefined;
  children?: ComponentChildren;
}

/** One tool call: a line, with input and output on demand. `children`: content specific to the tool. */
export function ToolCard({ view, change, children }: CardProps): JSX.Element {
  const [open, toggle] = useOpen(`tool-${view.call.id}`);
  const { call, state } = view;
  const showsTail = call.name === "bash" && view.output !== "" && (state === "running" || state === "failed" || state === "canceled");
  const undone = change?.state === "undone";
  const light = TOOLS[call.name]?.light && state !== "waiting for approval";
  return (
    <article
      class={`tool tool-${view.state.split(" ", 1)[0]} ${light ? "tool-light" : ""} ${undone ? "tool-undone" : ""}`}
      aria-label={[t("Tool {0}: {1}", call.name, STATES[state].word), ...view.ended.filter((word) => word !== STATES[state].word)].join(", ")}
    >
      <div class="tool-row">
        <button type="button" class="tool-head" aria-expanded={open} onClick={toggle} title={visibleLine(view.path ?? view.title)}>
          <Icon name={STATES[state].icon} />
          <span class="verb">{TOOLS[call.name]?.verb ?? call.name}</span>
          <Title words={visibleLine(bare(view))} path={view.path} />
          <Counts added={view.added} removed={view.removed} />
          {remarks(view, undone).map((remark) => (
            <span key={remark} class="remark">
              {remark}
            </span>
          ))}
          {isUnderWay(view) && <Elapsed />}
          <Icon name="chevron" />
        </button>
        <CardButtons view={view} />
        {change && <StepButton change={change} />}
      </div>
      {showsTail && !open && (
        <pre class="tail">
          <Ansi text={view.output.trimEnd().split("\n").slice(-4).join("\n")} />
        </pre>
      )}
      {view.why && <p class="verdict">{visible(view.why)}</p>}
      {!undone && <Problems view={view} />}
      {children}
      {open && <Details view={view} />}
    </article>
  );
}

/** One row for consecutive reads and searches. Failed calls are visible even while the row is collapsed. */
export function ReadsRow({ session, calls }: { session: SessionState; calls: readonly ToolCallPart[] }): JSX.Element {
  const [open, toggle] = useOpen(`reads-${calls[0]?.id}`);
  const views = calls.map((call) => toolView(session, call));
  const failed = views.filter(({ state }) => state === "failed" || state === "denied");
  const running = views.findLast(({ state }) => state === "running" || state === "pending");
  const words = readsWords(calls);
  const remark = failed.length > 0 ? t("{0} failed", failed.length) : "";
  const shown = open ? views : failed;
  return (
    <div class={`tool tool-light reads ${failed.length > 0 ? "tool-failed" : running ? "tool-running" : "tool-done"}`} role="group" aria-label={[words, remark].filter(Boolean).join(", ")}>
      <div class="tool-row">
        <button type="button" class="tool-head" aria-expanded={open} onClick={toggle}>
          <Icon name={running ? "running" : failed.length > 0 ? "cross" : "check"} />
          <span class="reads-words">{words}</span>
          {running && <span class="tool-title">{visibleLine(running.title)}</span>}
          {remark && <span class="remark">{remark}</span>}
          <Icon name="chevron" />
        </button>
      </div>
      {shown.length > 0 && (
        <div class="reads-cards">
          {shown.map((view) => (
            <ToolCard key={view.call.id} view={view} change={undefined} />
          ))}
        </div>
      )}
    </div>
  );
}

/** A plan call: its changes, with input and output on demand. */
export function PlanCard({ view, tree }: { view: ToolView; tree: GoalTree }): JSX.Element {
  const [open, toggle] = useOpen(`tool-${view.call.id}`);
  const changes = planChanges(view.result);
  if (changes.length === 0) return <ToolCard view={view} change={undefined} />;
  return (
    <article class="tool tool-light plan-card" aria-label={t("Tool {0}: {1}", view.call.name, STATES[view.state].word)}>
      <div class="tool-row">
        <PlanChanges changes={changes} tree={tree} />
        <IconButton icon="chevron" label={t("Details")} class="symbol card-button" aria-expanded={open} onClick={toggle} />
      </div>
      {open && <Details view={view} />}
    </article>
  );
}

/** Return true for a command that the turn waits for; a background command is a job. */
function isUnderWay({ call, state, job }: ToolView): boolean {
  return call.name === "bash" && state === "running" && !job;
}

/** The time since a command started to run, hidden for commands that end within two seconds. */
function Elapsed(): JSX.Element | null {
  const began = useRef(Date.now());
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds(Math.floor((Date.now() - began.current) / 1000)), 1000);
    return () => clearInterval(timer);
  }, []);
  return seconds < 2 ? null : <span class="remark" aria-hidden="true">{duration(seconds * 1000)}</span>;
}

/** A title: a path is shortened at its beginning, other text at its end. */
function Title({ words, path }: { words: string; path: string | undefined }): JSX.Element {
  const isPath = path !== undefined && words !== "" && path.endsWith(words);
  return <span class="tool-title">{isPath ? <FilePath path={words} /> : <bdi>{words}</bdi>}</span>;
}

function remarks(view: ToolView, undone: boolean): string[] {
  const state = view.state === "canceled" && !view.job ? (view.result?.metadata["canceled"] === true ? t("stopped") : view.result?.title || t("not run")) : STATES[view.state].remark;
  const ended = view.ended.length > 1 || view.state === "done" ? view.ended : [state, ...view.ended];
  return [ended.filter(Boolean).join(" · "), view.altered ? t("edited by you") : "", view.job?.id ?? "", undone ? t("undone") : ""].filter((remark) => remark !== undefined && remark !== "") as string[];
}

/** Actions for the subject of a call: open the file, run the command in a terminal, stop the job. */
function CardButtons({ view }: { view: ToolView }): JSX.Element | null {
  const { call, path, job, result } = view;
  const { command } = call.name === "bash" ? argumentsOf(call.input) : {};
  return (
    <>
      {isUnderWay(view) && (
        <IconButton icon="stop" class="step" label={t("Stop this command")} title={t("Stop this command; the agent continues with its output so far")} message={{ type: "stopCommand", callId: call.id }}>
          <span class="step-word">{t("Stop")}</span>
        </IconButton>
      )}
      {job?.running && (
        <IconButton icon="stop" class="step" label={t("Stop job {0}", job.id)} title={t("Stop this background job")} message={{ type: "stopJob", sessionId: job.sessionId, jobId: job.id }}>
          <span class="step-word">{t("Stop")}</span>
        </IconButton>
      )}
      {typeof command === "string" && call.finished && (
        <IconButton icon="terminal" class="symbol card-button" label={t("Open in Terminal")} title={t("Type this command in a terminal, without running it")} message={{ type: "terminal", text: command }} />
      )}
      {call.name === "read" && path && result && !result.isError && (
        <IconButton icon="file" class="symbol card-button" label={t("Open {0}", visibleLine(path))} message={{ type: "openFile", path, ...lineOf(result.content) }} />
      )}
    </>
  );
}

/** Return the first line that was read, if it is not line 1. */
function lineOf(content: string): { line?: number } {
  const line = listingOf(content)?.first ?? 1;
  return line > 1 ? { line } : {};
}

/** A button to undo or redo the change of this call. */
function StepButton({ change }: { change: HistoryChange }): JSX.Element | null {
  const undone = change.state === "undone";
  // The content before a command's change is not always known.
  if (!undone && !change.files.some((file) => file.undoable)) return null;
  const action = undone ? "redo" : "undo";
  const word = undone ? t("Redo") : t("Undo");
  const title = undone ? t("Redo {0}; your own edits stay", changeLabel(change)) : t("Undo {0}; your own edits stay", changeLabel(change));
  return (
    <IconButton icon={action} class="step" label={word} title={visibleLine(title)} message={{ type: "step", action, changeId: change.changeId }}>
      <span class="step-word">{word}</span>
    </IconButton>
  );
}

/** Return the title without the parts shown beside it: the counts, and a verb at the beginning. */
function bare({ title, call, added }: ToolView): string {
  const { verb, said: other } = TOOLS[call.name] ?? { verb: call.name, said: undefined };
  const words = added === undefined ? title : uncounted(title);
  const first = words.split(" ", 1)[0]?.toLowerCase() ?? "";
  const said = first === verb.toLowerCase() || first === other || first === call.name || (WRITERS.has(call.name) && WRITERS.has(first));
  return said ? words.slice(first.length).trimStart() : words;
}

function Problems({ view }: { view: ToolView }): JSX.Element | null {
  const [all, toggle] = useOpen(`problems-${view.call.id}`);
  const { problems, verdict } = view;
  if (problems.length === 0) {
    if (verdict === "clean") return <p class="verdict verdict-clean">{t("No new problems")}</p>;
    if (verdict === "no_fresh_answer") return <p class="verdict">{t("The language server did not answer in time")}</p>;
    return null;
  }
  const shown = all ? problems : problems.slice(0, FIRST_PROBLEMS);
  return (
    <>
      <ul class="problems" aria-label={t("Problems")}>
        {shown.map((problem, index) => (
          <li key={index}>
            <ProblemButton problem={problem} />
          </li>
        ))}
      </ul>
      {shown.length < problems.length && (
        <TextButton label={t("{0} more", problems.length - shown.length)} class="quiet" onClick={toggle} />
      )}
    </>
  );
}

function ProblemButton({ problem }: { problem: ProblemLine }): JSX.Element {
  const { path, line, column, severity, message, source } = problem;
  const name = path.split(/[\\/]/).at(-1) ?? path;
  return (
    <button
      type="button"
      class={`problem problem-${severity}`}
      title={`${path}:${line}:${column}`}
      onClick={() => post({ type: "openFile", path, line, column })}
    >
      <Icon name={severity === "error" ? "cross" : severity === "warning" ? "warning" : "info"} />
      <span>
        {message} <span class="dim">{`${source ? `${source} · ` : ""}${name}:${line}:${column}`}</span>
      </span>
    </button>
  );
}

function Details({ view }: { view: ToolView }): JSX.Element {
  const { call, diff, told, path, result, outputFile } = view;
  const looked = lookedAt(view);
  const shown = shownOutput(view);
  const words = visible(input(call.input));
  return (
    <div class="details">
      {path && call.name !== "read" && !looked && (
        <TextButton label={visibleLine(path)} class="path" message={{ type: "openFile", path }} />
      )}
      {diff && <Diff diff={diff} />}
      {/* The title already shows it. */}
      {(call.name !== "read" || result?.isError) && (!looked || words.includes("\n")) && <Section title={t("Input")} text={words} folded={diff ? `input-${call.id}` : undefined} />}
      <ModelSays words={view.modelSays} />
      {looked ?? <Section title={call.name === "bash" || !result ? t("Output") : t("Result")} text={shown} folded={diff ? `result-${call.id}` : undefined} />}
      {outputFile && (
        <TextButton label={t("Open the whole output")} class="path" message={{ type: "openFile", path: outputFile }} />
      )}
      {!looked && told !== shown && <Section title={t("Sent to the model")} text={told} folded={`told-${call.id}`} />}
    </div>
  );
}

/** Users want a command's raw output; the text around it, and errors in full, are for the model. */
function shownOutput({ call, output, result }: ToolView): string {
  if (call.name === "bash") return output;
  return result?.isError ? "" : (result?.content ?? output);
}

function Section({ title, text, folded }: { title: string; text: string; folded: string | undefined }): JSX.Element | null {
  if (!text) return null;
  const shown = <Verbatim><Ansi text={text} /></Verbatim>;
  if (folded !== undefined) return <section><Folded id={folded} label={` ${title}`}>{shown}</Folded></section>;
  return (
    <section>
      <h3>{title}</h3>
      {shown}
    </section>
  );
}

/** Format arguments: one line each, or the JSON itself if it cannot be parsed. */
function input(json: string): string {
  const entries = Object.entries(argumentsOf(json));
  if (entries.length === 0) return json === "{}" ? "" : json;
  const command = entries.find(([name]) => name === "command")?.[1];
  if (typeof command === "string") return `$ ${command}`;
  const [only] = entries;
  if (entries.length === 1 && only && typeof only[1] === "string") return only[1];
  return entries
    .map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
      return text.includes("\n") ? `${name}:\n${text.replace(/^/gm, "  ")}` : `${name}: ${text}`;
    })
    .join("\n");
}

/** Command output in the colors of the theme's terminal. */
function Ansi({ text }: { text: string }): JSX.Element {
  return <>{spans(text).map(({ text: piece, style }, index) => (style ? <span key={index} class={style} style={variables(style)}>{piece}</span> : piece))}</>;
}

/** Return a result as code or places; undefined for other results. */
function lookedAt({ call, result, path }: ToolView): JSX.Element | undefined {
  if (!result || result.isError) return undefined;
  const listing = call.name === "read" ? listingOf(result.content) : undefined;
  if (listing) return <Lines listing={listing} path={path ?? ""} />;
  const found = call.name === "grep" || call.name === "glob" ? foundOf(call.name, result.content) : undefined;
  return found && <Places found={found} />;
}

function Lines({ listing: { first, code, notes }, path }: { listing: Listing; path: string }): JSX.Element {
  const shown = visible(code);
  const html = highlight(shown, /\.(\w+)$/.exec(path)?.[1] ?? "");
  const numbers = code.split("\n").map((_, index) => first + index);
  return (
    <>
      <div class="io listing" tabIndex={0} role="region" aria-label={visibleLine(path)}>
        <pre class="gutter" aria-hidden="true">
          {numbers.join("\n")}
        </pre>
        <pre>{html === undefined ? <code>{shown}</code> : <code dangerouslySetInnerHTML={{ __html: html }} />}</pre>
      </div>
      <Notes notes={notes} />
    </>
  );
}

function Places({ found: { files, notes } }: { found: Found }): JSX.Element {
  return (
    <>
      <ul class="io places" aria-label={t("Found")}>
        {files.map(({ path, hits }, index) => (
          <li key={index}>
            <TextButton label={visibleLine(path)} class="path" message={{ type: "openFile", path }} />
            {hits.map(({ line, text }, at) => (
              <button key={at} type="button" class="hit" aria-label={`${visibleLine(path)}:${line} ${visibleLine(text.trim())}`} title={`${visibleLine(path)}:${line}`} onClick={() => post({ type: "openFile", path, line })}>
                <span class="hit-line">{line}</span>
                <code>{visibleLine(text.trim())}</code>
              </button>
            ))}
          </li>
        ))}
      </ul>
      <Notes notes={notes} />
    </>
  );
}

function Notes({ notes }: { notes: readonly string[] }): JSX.Element | null {
  return notes.length > 0 ? <p class="dim looked-notes">{visible(notes.join("\n"))}</p> : null;
}
