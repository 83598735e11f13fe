import { Fragment, type JSX } from "preact";
import { PROVIDER_NAMES } from "../../models/words";
import type { GoalTree, Part, ReasoningPart, Role, ToolCallPart } from "../../protocol.gen";
import { compactionWords, type CompactionLine } from "../../session/lines";
import { goalNumbers, goalOf } from "../../session/numbers";
import { plannedParts } from "../../session/plan";
import { stopNotice } from "../../session/read";
import type { Level, SessionState } from "../../session/state";
import { toolView } from "../../session/tools";
import { handedLine } from "../handed";
import { childSession } from "../../explore/children";
import type { Explored } from "../../explore/shown";
import { explorationView, requestsOf, subagentOf } from "../../explore/view";
import type { Changes } from "../messages";
import { promptOf } from "../../composer/text";
import { FileName } from "./chips";
import { Exploration } from "./explore";
import { memo, useOpen } from "./hooks";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { Markdown } from "./markup";
import { Planned } from "./planned";
import { Task } from "./task";
import { ToolCard } from "./tool";
import { visible } from "./visible";
import { t } from "../../l10n";

interface MessageProps {
  id: string;
  role: Role;
  parts: readonly (Part | undefined)[];
  session: SessionState;
  /** What can be undone and redone, by tool call. */
  changes: Changes;
  explored: Explored;
  streaming: boolean;
  /** It can be sent again. */
  editable: boolean;
  /** It is the prompt of the last turn, and nothing runs. */
  retryable: boolean;
  /** It answers the question for a plan. */
  plans?: boolean;
  /** Goals, by the calls with which work on them begins. */
  marks?: ReadonlyMap<string, string> | undefined;
}

/**
 * A message, while it grows and when it is stored: the same component, so that nothing on the page jumps when it is
 * complete. Drawn again only when its parts change or one of its own tool calls moves on.
 */
export const MessageView = memo(
  (props: MessageProps): JSX.Element =>
    props.role === "user" ? (
      <UserMessage id={props.id} parts={props.parts} editable={props.editable} retryable={props.retryable} restorable={hasChanges(props.changes)} />
    ) : (
      <AssistantMessage {...props} />
    ),
  (a, b) =>
    a.parts === b.parts && a.streaming === b.streaming && a.retryable === b.retryable && a.plans === b.plans && (a.marks === undefined) === (b.marks === undefined) && sameCalls(b.parts, a.session, b.session) && sameChanges(a, b) && sameChildren(a, b),
);

function hasChanges(changes: Changes): boolean {
  return Object.keys(changes).length > 0;
}

function sameChanges(a: MessageProps, b: MessageProps): boolean {
  if (a.changes === b.changes) return true;
  if (b.role === "user") return hasChanges(a.changes) === hasChanges(b.changes);
  return b.parts.every((part) => part?.type !== "tool_call" || a.changes[part.id]?.state === b.changes[part.id]?.state);
}

/** What a card of branches or of a sub-agent shows. */
function sameChildren(a: MessageProps, b: MessageProps): boolean {
  const same =
    a.explored === b.explored &&
    a.session.children === b.session.children &&
    a.session.pending === b.session.pending &&
    a.session.goalTree === b.session.goalTree;
  return same || !b.parts.some((part) => part?.type === "tool_call" && (part.name === "explore" || part.name === "task"));
}

function sameCalls(parts: MessageProps["parts"], a: SessionState, b: SessionState): boolean {
  if (a.results === b.results && a.progress === b.progress && a.pending === b.pending) return true;
  return parts.every((part) => {
    if (part?.type !== "tool_call") return true;
    const request = (state: SessionState): unknown => state.pending.find((one) => one.toolCallId === part.id);
    return (
      a.results[part.id] === b.results[part.id] &&
      a.progress[part.id] === b.progress[part.id] &&
      request(a) === request(b)
    );
  });
}

const RESTORE = t("Restore files to before this message");

function UserMessage({ id, parts, editable, retryable, restorable }: Pick<MessageProps, "id" | "parts" | "editable" | "retryable"> & { restorable: boolean }): JSX.Element {
  const notes = parts.flatMap((part) => (part?.type === "note" ? [part.text] : []));
  const said = parts.some((part) => part?.type === "text" || part?.type === "file" || part?.type === "subtask");
  return (
    <>
      {said && (
        <article class="message user" aria-label={t("You")}>
          <div class="actions">
            {editable && <Action icon="edit" label={t("Edit and resend")} onClick={() => post({ type: "resend", messageId: id, ...promptOf(parts.filter((part) => part !== undefined)) })} />}
            {retryable && <Action icon="redo" label={t("Retry this message")} onClick={() => post({ type: "retry" })} />}
            {restorable && <Action icon="restore" label={RESTORE} onClick={() => post({ type: "restoreBefore", messageId: id })} />}
          </div>
          {parts.map((part, index) => {
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

/** A button that shows on hover and focus. */
function Action({ icon, label, onClick }: { icon: IconName; label: string; onClick: () => void }): JSX.Element {
  return (
    <button type="button" class="symbol" aria-label={label} title={label} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}

/** What Goalwright told the model in the person's place or along with a message: nobody said it, and nobody need read it. */
function Note({ id, text, label = t("Note to the model") }: { id: string; text: string; label?: string }): JSX.Element {
  const [open, toggle] = useOpen(`note-${id}`);
  return (
    <div class="note">
      <button type="button" class="fold" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        <span>{label}</span>
      </button>
      {open && <p class="said">{text}</p>}
    </div>
  );
}

/** One quiet line for the messages of a compaction; below it on demand what is left of what was said. */
export function Compaction({ line }: { line: CompactionLine }): JSX.Element {
  const [open, toggle] = useOpen(`compaction-${line.key}`);
  const words = compactionWords(line);
  if (!line.summary) return <p class="working shimmer">{words}</p>;
  return (
    <div class="compaction">
      <button type="button" class="fold" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        <Icon name="fold" />
        <span>{words}</span>
      </button>
      {open && (
        <div class="compaction-body">
          <Markdown text={line.summary} />
          {line.carried.trim() && <Carried line={line} />}
        </div>
      )}
    </div>
  );
}

function Carried({ line }: { line: CompactionLine }): JSX.Element {
  const [open, toggle] = useOpen(`carried-${line.key}`);
  return (
    <>
      <button type="button" class="fold" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        <span>{t("Carried over word for word")}</span>
      </button>
      {open && (
        <pre class="io" tabIndex={0}>
          {visible(line.carried)}
        </pre>
      )}
    </>
  );
}

const LONG_PROMPT = 1_200;

/** What the person wrote, as it was written; a pasted log does not push the conversation away. */
export function UserText({ id, text }: { id: string; text: string }): JSX.Element {
  const [open, toggle] = useOpen(`prompt-${id}`);
  const long = text.length > LONG_PROMPT || text.split("\n").length > 16;
  const line = handedLine(text);
  if (line !== undefined) {
    return (
      <>
        <p class="said">{visible(line)}</p>
        <Note id={`sent-${id}`} text={text} label={t("What the model is sent")} />
      </>
    );
  }
  return (
    <>
      <p class={long && !open ? "said clipped" : "said"}>{text}</p>
      {long && (
        <button type="button" class="quiet" aria-expanded={open} onClick={toggle}>
          {open ? t("Show less") : t("Show all")}
        </button>
      )}
    </>
  );
}

function AssistantMessage({ id, parts, session, changes, explored, streaming, plans, marks }: MessageProps): JSX.Element {
  const last = parts.length - 1;
  const steps = plans && !streaming ? plannedParts(parts) : undefined;
  return (
    <article class="message assistant" aria-label="Goalwright" aria-busy={streaming}>
      {parts.map((part, index) => {
        const growing = streaming && index === last;
        switch (part?.type) {
          case "text":
            if (steps && part.text.trim()) return <Planned key={index} steps={steps} />;
            // JSON that grows is nothing to read.
            if (plans && streaming && /^\s*(```|[{[])/.test(part.text)) return <p key={index} class="working shimmer">{t("Planning…")}</p>;
            return part.text.trim() ? <Markdown key={index} text={part.text} /> : null;
          case "reasoning":
            return <Reasoning key={index} id={`${id}-${index}`} part={part} growing={growing} />;
          case "tool_call":
            return (
              <Fragment key={index}>
                {marks?.has(part.id) && <GoalMark goalId={marks.get(part.id) ?? ""} tree={session.goalTree} />}
                <ToolCard view={toolView(session, part)} change={changes[part.id]}>
                  <Work session={session} call={part} explored={explored} />
                </ToolCard>
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

/** What a call has others do: branches, or a sub-agent. */
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
        {!open && growing && <span class="glimpse">{part.text.trim().split("\n").at(-1)?.replace(/[*_`#]+/g, "")}</span>}
      </button>
      {open && <Markdown text={part.text} />}
    </div>
  );
}

const ICONS: Record<string, IconName> = { files_restored: "undo", goal_changed: "goal", granted: "shield" };

/** A new error is announced at once, everything else when the reader has a moment; what is `past` is not announced. */
export function NoticeLine({ level, text, code = "", past = false }: { level: Level; text: string; code?: string; past?: boolean }): JSX.Element {
  const icon = ICONS[code] ?? (level === "info" ? "info" : "warning");
  return (
    <div class={`notice notice-${level}`} role={past ? "note" : level === "error" ? "alert" : "status"}>
      <Icon name={icon} />
      <span>{text}</span>
      {code === "cost" && (
        <button type="button" class="quiet" onClick={() => post({ type: "meter", action: "setBudget" })}>
          {t("Set budget…")}
        </button>
      )}
    </div>
  );
}

/** What helps against an error of the model's provider. */
export function Fixes({ errorKind, provider }: { errorKind: string; provider: string }): JSX.Element {
  const key = errorKind === "auth" || errorKind === "no_key";
  return (
    <>
      {key && (
        <button type="button" class="primary" onClick={() => post({ type: "connectModel", provider: Object.hasOwn(PROVIDER_NAMES, provider) || provider === "custom" ? provider : "" })}>
          {t("Change Key…")}
        </button>
      )}
      <button type="button" onClick={() => post({ type: "command", command: "chooseModel" })}>
        {t("Change Model…")}
      </button>
    </>
  );
}

/** Where work on a goal begins. */
export const GoalMark = memo(({ goalId, tree }: { goalId: string; tree: GoalTree }): JSX.Element | null => {
  const goal = goalOf(tree, goalId);
  if (!goal) return null;
  const number = goalNumbers(tree).get(goalId);
  return (
    <p class="goal-mark" data-goal={goalId} title={goal.description}>
      <Icon name="goal" />
      <span>{number ? `${number} ${goal.description}` : goal.description}</span>
    </p>
  );
});
