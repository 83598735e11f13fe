import { Fragment, type ComponentChildren, type JSX } from "preact";
import { type GoalTree, NoticeCode, type Part, PROVIDER_NAMES, type ReasoningPart, type Role, type ToolCallPart } from "../../protocol.gen";
import { compactionWords, type CompactionLine, type Reads } from "../../session/lines";
import { goalNumbers, goalOf } from "../../goals/tree";
import { plannedParts } from "../../session/plan";
import { isOver, type Level, type SessionState, stopNotice } from "../../session/state";
import { toolView } from "../../session/tools";
import { childSession, explorationView, type Explored, requestsOf, subagentOf } from "../../explore/view";
import type { Changes } from "../messages";
import { handedLine, promptOf } from "../../composer/text";
import { Folded, IconButton, TextButton, Verbatim } from "./buttons";
import { FileName } from "./chips";
import { Exploration, Task } from "./explore";
import { memo, useOpen } from "./hooks";
import { Icon, type IconName } from "./icons";
import { Markdown } from "./markup";
import { Planned } from "./plan";
import { PlanCard, ReadsRow, ToolCard } from "./tool";
import { bareLine, visible } from "./visible";
import { t } from "../../l10n";

interface MessageProps {
  id: string;
  role: Role;
  parts: readonly (Part | Reads | undefined)[];
  session: SessionState;
  /** Changes that can be undone or redone, by tool call. */
  changes: Changes;
  explored: Explored;
  streaming: boolean;
  /** True when the message can be edited and sent again. */
  editable: boolean;
  /** True for the prompt of the last turn while nothing runs. */
  retryable: boolean;
  /** True when the message answers the request for a plan. */
  plans?: boolean;
  /** Goals, by the tool calls that start work on them. */
  marks?: ReadonlyMap<string, string> | undefined;
}

/**
 * A streaming or stored message. Both use the same component, so that nothing on the page jumps when the message is
 * complete. It is rendered again only when its parts or one of its tool calls change.
 */
export const MessageView = memo(
  (props: MessageProps): JSX.Element =>
    props.role === "user" ? (
      <UserMessage id={props.id} parts={props.parts} editable={props.editable} forkable={props.editable && !props.session.session.foreign} retryable={props.retryable} restorable={hasChanges(props.changes)} />
    ) : (
      <AssistantMessage {...props} />
    ),
  (a, b) => {
    const [before, after] = [shownOf(a), shownOf(b)];
    return before.length === after.length && before.every((value, index) => value === after[index]);
  },
);

function hasChanges(changes: Changes): boolean {
  return Object.keys(changes).length > 0;
}

const PLAN_TOOLS = new Set(["goal", "step"]);
const WORK_TOOLS = new Set(["explore", "task"]);

/** Return all values that a message shows, to compare them one by one. */
function shownOf({ role, parts, session, changes, explored, streaming, retryable, plans, marks }: MessageProps): unknown[] {
  const calls = parts.flatMap((part) => (part?.type === "tool_call" ? [part] : part?.type === "reads" ? part.calls : []));
  const { results, progress, pending, branches, subagents, awaits, goalTree } = session;
  const plan = marks !== undefined || calls.some(({ name }) => PLAN_TOOLS.has(name));
  const work = calls.some(({ name }) => WORK_TOOLS.has(name));
  return [
    ...parts.flatMap((part): unknown[] => (part?.type === "reads" ? ["reads", ...part.calls] : [part])),
    ...calls.flatMap(({ id }) => [results[id], progress[id], pending.find((one) => one.toolCallId === id), isOver(session, id), changes[id]?.state]),
    ...(plan ? [goalTree] : []),
    ...(work ? [explored, branches, subagents, awaits, pending, goalTree] : []),
    streaming,
    retryable,
    plans,
    marks === undefined,
    role === "user" && hasChanges(changes),
  ];
}

interface UserMessageProps extends Pick<MessageProps, "id" | "parts" | "editable" | "retryable"> {
  /** False for sessions that came with the folder, which the daemon does not fork. */
  forkable: boolean;
  restorable: boolean;
}

function UserMessage({ id, parts, editable, forkable, retryable, restorable }: UserMessageProps): JSX.Element {
  const notes = parts.flatMap((part) => (part?.type === "note" ? [part.text] : []));
  const command = parts.find((part) => part?.type === "command");
  const said = parts.some((part) => part?.type === "text" || part?.type === "file" || part?.type === "subtask");
  return (
    <>
      {said && (
        <article class="message user" aria-label={t("You")}>
          <div class="actions">
            {editable && <IconButton icon="edit" label={t("Edit and resend")} message={{ type: "resend", messageId: id, ...promptOf(parts.filter(isPart)) }} />}
            {forkable && <IconButton icon="fork" label={t("Fork from here")} message={{ type: "fork", messageId: id, ...promptOf(parts.filter(isPart)) }} />}
            {retryable && <IconButton icon="redo" label={t("Retry this message")} message={{ type: "retry" }} />}
            {restorable && <IconButton icon="restore" label={t("Revert files to this point")} message={{ type: "restoreBefore", messageId: id }} />}
          </div>
          {parts.map((part, index) => {
            if (part?.type === "command") return <p class="said">{part.text}</p>;
            if (part?.type === "text" && command) return <Note id={`sent-${id}`} text={part.text} label={t("Prompt sent to the model")} />;
            if (part?.type === "text") return <UserText key={index} id={id} text={part.text} />;
            if (part?.type === "file") return <span class="chip"><FileName file={part} /></span>;
            if (part?.type === "subtask") return <p>{t("Task for {0}: {1}", part.agent, part.prompt)}</p>;
            if (part?.type === "agent") return <span class="chip">{`@${part.agent}`}</span>;
            return null;
          })}
        </article>
      )}
      {notes.length > 0 && <Note id={id} text={notes.join("\n\n")} />}
    </>
  );
}

/** A note from Goalwright to the model, sent instead of or along with a user message; folded, because users rarely need it. */
function Note({ id, text, label = t("System note") }: { id: string; text: string; label?: string }): JSX.Element {
  return (
    <div class="note">
      <Folded id={`note-${id}`} label={<span>{label}</span>}>
        <p class="said">{text}</p>
      </Folded>
    </div>
  );
}

/** A line for a compaction; expands to the summary that replaced the messages. */
export function Compaction({ line }: { line: CompactionLine }): JSX.Element {
  const words = compactionWords(line);
  if (!line.summary) return <p class="working shimmer">{words}</p>;
  return (
    <div class="compaction">
      <Folded id={`compaction-${line.key}`} label={[<Icon key="icon" name="fold" />, <span key="words">{words}</span>]}>
        <div class="compaction-body">
          <Markdown text={line.summary} />
          {line.carried.trim() && (
            <Folded id={`carried-${line.key}`} label={<span>{t("Kept word for word")}</span>}>
              <Verbatim>{visible(line.carried)}</Verbatim>
            </Folded>
          )}
        </div>
      </Folded>
    </div>
  );
}

const LONG_PROMPT = 1_200;

/** The user's text, unformatted. Long text, such as a pasted log, is folded. */
export function UserText({ id, text }: { id: string; text: string }): JSX.Element {
  const [open, toggle] = useOpen(`prompt-${id}`);
  const long = text.length > LONG_PROMPT || text.split("\n").length > 16;
  const line = handedLine(text);
  if (line !== undefined) {
    return (
      <>
        <p class="said">{visible(line)}</p>
        <Note id={`sent-${id}`} text={text} label={t("Prompt sent to the model")} />
      </>
    );
  }
  return (
    <>
      <p class={long && !open ? "said clipped" : "said"}>{text}</p>
      {long && (
        <TextButton label={open ? t("Show less") : t("Show all")} class="quiet" aria-expanded={open} onClick={toggle} />
      )}
    </>
  );
}

function AssistantMessage({ id, parts, session, changes, explored, streaming, plans, marks }: MessageProps): JSX.Element {
  const last = parts.length - 1;
  const steps = plans && !streaming ? plannedParts(parts.filter(isPart)) : undefined;
  return (
    <article class="message assistant" aria-label="Goalwright" aria-busy={streaming}>
      {parts.map((part, index) => {
        const growing = streaming && index === last;
        switch (part?.type) {
          case "text":
            return <Answer key={index} text={part.text} steps={steps} planning={plans && streaming} />;
          case "reasoning":
            return <Reasoning key={index} id={`${id}-${index}`} part={part} growing={growing} />;
          case "reads":
          case "tool_call":
            return (
              <Fragment key={index}>
                <GoalMark goalId={marks?.get((part.type === "reads" ? part.calls[0]?.id : part.id) ?? "")} tree={session.goalTree} />
                <Calls part={part} session={session} changes={changes} explored={explored} />
              </Fragment>
            );
          case "finish": {
            const notice = stopNotice(part.reason, part.detail);
            return notice && <NoticeLine key={index} level={notice.level} text={notice.text} />;
          }
          default:
            return null;
        }
      })}
    </article>
  );
}

function Answer({ text, steps, planning }: { text: string; steps: ReturnType<typeof plannedParts>; planning: boolean | undefined }): JSX.Element | null {
  if (steps && text.trim()) return <Planned steps={steps} />;
  // Hide JSON while it streams, because it is unreadable.
  if (planning && /^\s*(```|[{[])/.test(text)) return <p class="working shimmer">{t("Planning…")}</p>;
  return text.trim() ? <Markdown text={text} /> : null;
}

function isPart(part: MessageProps["parts"][number]): part is Part {
  return part !== undefined && part.type !== "reads";
}

/** The card of a call, or the line of several reads. */
function Calls({ part, session, changes, explored }: Pick<MessageProps, "session" | "changes" | "explored"> & { part: ToolCallPart | Reads }): JSX.Element {
  if (part.type === "reads") return <ReadsRow session={session} calls={part.calls} />;
  const view = toolView(session, part);
  if (PLAN_TOOLS.has(part.name)) return <PlanCard view={view} tree={session.goalTree} />;
  return (
    <ToolCard view={view} change={changes[part.id]}>
      <Work session={session} call={part} explored={explored} />
    </ToolCard>
  );
}

/** The branches or the sub-agent that a call started. */
function Work({ session, call, explored }: { session: SessionState; call: ToolCallPart; explored: Explored }): JSX.Element | null {
  const sessionId = session.session.trace.traceId;
  if (call.name === "explore") {
    const view = explorationView(session, call);
    return view ? <Exploration sessionId={sessionId} view={view} explored={explored} /> : null;
  }
  const agent = call.name === "task" ? subagentOf(session, call) : undefined;
  if (!agent) return null;
  return <Task sessionId={sessionId} agent={agent} requests={requestsOf(session, agent.id)} glimpse={explored.live[childSession(sessionId, agent.id)]} />;
}

function Reasoning({ id, part, growing }: { id: string; part: ReasoningPart; growing: boolean }): JSX.Element | null {
  const [open, toggle] = useOpen(`reasoning-${id}`);
  if (!part.text.trim() && !growing) return null;
  return (
    <div class="reasoning">
      <button type="button" class="fold" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        <span class={growing ? "shimmer" : ""}>{growing ? t("Thinking…") : t("Thought")}</span>
        {!open && growing && <span class="glimpse">{bareLine(part.text.trim().split("\n").at(-1) ?? "")}</span>}
      </button>
      {open && <Markdown text={part.text} />}
    </div>
  );
}

const ICONS: Record<string, IconName> = { files_restored: "undo", goal_changed: "goal", granted: "shield" };

/** A notice line. Screen readers announce a new error at once and other notices politely; `past` notices are not announced. */
export function NoticeLine({ level, text, code = "", past = false, children }: { level: Level; text: string; code?: string; past?: boolean; children?: ComponentChildren }): JSX.Element {
  const icon = ICONS[code] ?? (level === "info" ? "info" : "warning");
  return (
    <div class={`notice notice-${level}`} role={past ? "note" : level === "error" ? "alert" : "status"}>
      <Icon name={icon} />
      <span>
        {text}
        {children && <> {children}</>}
      </span>
      {code === NoticeCode.COST && (
        <TextButton label={t("Set budget…")} class="quiet" message={{ type: "command", command: "setBudget" }} />
      )}
    </div>
  );
}

/** Buttons that help to fix a provider error. */
export function Fixes({ errorKind, provider }: { errorKind: string; provider: string }): JSX.Element {
  const key = (errorKind === "auth" || errorKind === "no_key") && provider !== "vscode";
  const known = Object.hasOwn(PROVIDER_NAMES, provider);
  return (
    <>
      {key && (
        <TextButton label={t("Change Key…")} class="primary" message={{ type: "command", command: "connectModel", args: known ? [provider] : [] }} />
      )}
      <TextButton label={t("Change Model…")} message={{ type: "command", command: "chooseModel" }} />
    </>
  );
}

/** A mark where work on a goal begins; nothing without one. */
export const GoalMark = memo(({ goalId, tree }: { goalId: string | undefined; tree: GoalTree }): JSX.Element | null => {
  const goal = goalOf(tree, goalId);
  if (!goal) return null;
  const number = goalNumbers(tree).get(goal.id);
  return (
    <p class="goal-mark" data-goal={goal.id} title={goal.description}>
      <Icon name="goal" />
      <span dir="auto">{number ? `${number} ${goal.description}` : goal.description}</span>
    </p>
  );
});
