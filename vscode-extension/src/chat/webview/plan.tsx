import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { statusWord } from "../../../../daemon/api/page/format.js";
import { mergeWords } from "../../goals/model";
import { changedGoals, drop, nowWords, progress, type ShownGoal, shownGoals } from "../../goals/tree";
import type { Goal, GoalTree } from "../../protocol.gen";
import type { SessionState } from "../../session/state";
import type { Changes, GoalCommand } from "../messages";
import { IconButton } from "./buttons";
import { useKeptOpen } from "./hooks";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { visibleLine } from "./visible";
import { type PlanChange, planLine, type PlanLine, type PlannedStep } from "../../session/plan";
import { t } from "../../l10n";

const ICONS: Readonly<Record<Goal["status"], IconName>> = { pending: "pending", in_progress: "goal", completed: "check", abandoned: "denied" };
const KEYS: Readonly<Record<string, GoalCommand>> = { F2: "renameGoal", Delete: "abandonGoal" };

/** The plan above the composer: progress and the current goal; expanded, the goal tree with its actions. */
export function PlanStrip({ session, changes }: { session: SessionState; changes: Changes }): JSX.Element | null {
  const { goalTree: tree } = session;
  const [open, toggle] = useKeptOpen("plan");
  if (tree.goals.length === 0) return null;
  const { done, all } = progress(tree);
  const now = visibleLine(nowWords(tree));
  return (
    <section class="plan" aria-label={t("Plan")}>
      {open && <Tree session={session} changes={changes} />}
      <div class="plan-bar">
        <button type="button" class="plan-head" aria-expanded={open} title={t("Show the plan")} onClick={toggle}>
          <Icon name="chevron" />
          <span class="only-spoken">{all > 0 ? t("Plan: {0} of {1} done. {2}", done, all, now) : t("Plan: {0}", now)}</span>
          {all > 0 && <span class="plan-count" aria-hidden="true">{`${done}/${all}`}</span>}
          <span class="plan-now" aria-hidden="true" dir="auto">
            {now}
          </span>
        </button>
        <IconButton icon="plus" label={t("Add a goal")} message={{ type: "command", command: "addGoal" }} />
      </div>
    </section>
  );
}

function Tree({ session, changes }: { session: SessionState; changes: Changes }): JSX.Element {
  const { goalTree: tree } = session;
  const [folded, setFolded] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [active, setActive] = useState<string | null>(tree.currentId);
  const list = useRef<HTMLUListElement>(null);
  const rows = shownGoals(tree, folded);
  const changed = changedGoals(tree, Object.values(changes));
  const at = Math.max(0, rows.findIndex(({ goal }) => goal.id === active));
  useEffect(() => {
    // Keep the current goal in view, when the plan opens and when the focus moves to another goal.
    const [box, row] = [list.current, list.current?.querySelector<HTMLElement>(".plan-current")];
    if (box && row) box.scrollTop = row.offsetTop - (box.clientHeight - row.offsetHeight) / 2;
  }, [tree.currentId]);
  const go = (to: number): void => {
    const goal = rows[Math.min(Math.max(to, 0), rows.length - 1)]?.goal;
    if (!goal) return;
    setActive(goal.id);
    list.current?.querySelector<HTMLElement>(`[data-goal-row="${CSS.escape(goal.id)}"]`)?.focus();
  };
  const fold = (id: string, to: boolean): void => setFolded(new Map(folded).set(id, to));
  const onKey = (event: KeyboardEvent, { goal, parent, isFolded }: ShownGoal): void => {
    if (event.target !== event.currentTarget) return; // a button of the row
    const moves: Record<string, () => void> = {
      ArrowDown: () => (event.altKey ? act("moveGoalDown", goal.id) : go(at + 1)),
      ArrowUp: () => (event.altKey ? act("moveGoalUp", goal.id) : go(at - 1)),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => (parent && isFolded ? fold(goal.id, false) : go(at + 1)),
      ArrowLeft: () => (parent && !isFolded ? fold(goal.id, true) : go(rows.findIndex((row) => row.goal.id === goal.parentId))),
      Enter: () => showSection(goal.id),
      ContextMenu: () => act("goalActions", goal.id),
    };
    const action = KEYS[event.key];
    if (!moves[event.key] && !action) return;
    event.preventDefault();
    if (action) act(action, goal.id);
    else moves[event.key]?.();
  };
  return (
    <ul class="plan-tree" role="tree" aria-label={t("Goals")} ref={list}>
      {rows.map((row, index) => (
        <Row key={row.goal.id} row={row} tree={tree} changed={changed.has(row.goal.id)} running={session.session.status === "running"} tabIndex={index === at ? 0 : -1} onFocus={() => setActive(row.goal.id)} onKey={onKey} onFold={fold} />
      ))}
    </ul>
  );
}

interface RowProps {
  row: ShownGoal;
  tree: GoalTree;
  /** True when files were changed for this goal. */
  changed: boolean;
  running: boolean;
  tabIndex: number;
  onFocus: () => void;
  onKey: (event: KeyboardEvent, row: ShownGoal) => void;
  onFold: (id: string, to: boolean) => void;
}

function Row({ row, tree, changed, running, tabIndex, onFocus, onKey, onFold }: RowProps): JSX.Element {
  const { goal, number, level, parent, isFolded } = row;
  const [over, setOver] = useState(false);
  const current = goal.id === tree.currentId;
  const words = visibleLine(goal.description);
  const about = mergeWords(goal) || visibleLine(goal.summary ?? "");
  const open = goal.status === "pending" || goal.status === "in_progress";
  return (
    <li
      role="treeitem"
      aria-level={level}
      aria-expanded={parent ? !isFolded : undefined}
      aria-current={current ? "step" : undefined}
      aria-label={[[number, words, about].filter(Boolean).join(" "), statusWord(goal.status)].join(", ")}
      data-goal-row={goal.id}
      class={`plan-row plan-${goal.status} ${current ? "plan-current" : ""} ${over ? "plan-over" : ""}`}
      style={{ paddingLeft: `${4 + (level - 1) * 14}px` }}
      tabIndex={tabIndex}
      draggable={open}
      onFocus={onFocus}
      onKeyDown={(event) => onKey(event, row)}
      onClick={() => showSection(goal.id)}
      onContextMenu={(event) => {
        event.preventDefault();
        act("goalActions", goal.id);
      }}
      onDragStart={(event) => event.dataTransfer?.setData("application/x-goal", goal.id)}
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes("application/x-goal")) return;
        event.preventDefault();
        event.stopPropagation();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        setOver(false);
        const moved = event.dataTransfer?.getData("application/x-goal");
        if (!moved) return;
        event.preventDefault();
        event.stopPropagation();
        // The upper part of a row drops before it, the lower part makes the goal its child.
        const before = event.offsetY < event.currentTarget.offsetHeight * 0.6;
        const place = before && moved !== goal.id ? { parentId: goal.parentId, beforeId: goal.id } : drop(tree, moved, goal.id);
        if (place) act("moveGoal", moved, place);
      }}
    >
      <button
        type="button"
        class="plan-fold"
        tabIndex={-1}
        aria-hidden="true"
        style={{ visibility: parent ? "visible" : "hidden" }}
        aria-expanded={!isFolded}
        onClick={(event) => {
          event.stopPropagation();
          onFold(goal.id, !isFolded);
        }}
      >
        <Icon name="chevron" />
      </button>
      <Icon name={current && running ? "running" : ICONS[goal.status]} />
      <span class="plan-number">{number}</span>{" "}
      <span class="plan-words" dir="auto" title={about ? `${words}\n${about}` : words}>
        {words}
        {about && <span class="dim">{` ${about}`}</span>}
      </span>
      <span class="plan-actions" onClick={(event) => event.stopPropagation()}>
        {open && !current && <IconButton icon="auto" label={t("Do this next")} message={{ type: "command", command: "focusGoal", args: [goal.id] }} />}
        {changed && <IconButton icon="undo" label={t("Undo the file changes of this goal")} message={{ type: "command", command: "undoGoal", args: [goal.id] }} />}
        <IconButton icon="more" label={t("More actions")} message={{ type: "command", command: "goalActions", args: [goal.id] }} />
      </span>
    </li>
  );
}

function act(command: GoalCommand, goalId: string, ...args: unknown[]): void {
  post({ type: "command", command, args: [goalId, ...args] });
}

/** Scroll to the start of work on a goal or its sub-goals. False when the page has no mark for it. */
export function showSection(goalId: string): boolean {
  const mark = document.querySelector<HTMLElement>(`[data-goal="${CSS.escape(goalId)}"]`);
  const box = mark?.closest(".scroller");
  if (!mark || !box) return false;
  // Scroll only the transcript: `scrollIntoView` would also move the page below the header.
  box.scrollTop += mark.getBoundingClientRect().top - box.getBoundingClientRect().top - 8;
  mark.classList.remove("flash");
  void mark.offsetWidth; // forces a reflow, so that the animation restarts
  mark.classList.add("flash");
  return true;
}

const CHANGE_ICONS: Readonly<Record<PlanChange["operation"], IconName>> = {
  added: "plus",
  completed: "checked",
  abandoned: "denied",
  removed: "denied",
  focused: "goal",
  renamed: "edit",
  moved: "moved",
};

/** A call's changes to the plan; a click scrolls to the start of work on the goal. */
export function PlanChanges({ changes, tree }: { changes: readonly PlanChange[]; tree: GoalTree }): JSX.Element {
  return (
    <ul class="plan-changes" aria-label={t("Changes of the plan")}>
      {changes.map((change, index) => (
        <li key={index}>
          <ChangeLine line={planLine(change, tree)} />
        </li>
      ))}
    </ul>
  );
}

function ChangeLine({ line }: { line: PlanLine }): JSX.Element {
  const { operation, goalId, number, description, summary, spoken } = line;
  const words = visibleLine(description);
  return (
    <button
      type="button"
      class={`plan-change did-${operation}`}
      aria-label={[visibleLine(spoken), visibleLine(summary)].filter(Boolean).join(", ")}
      title={[visibleLine(spoken), summary].filter(Boolean).join("\n")}
      onClick={() => showSection(goalId)}
    >
      <Icon name={CHANGE_ICONS[operation]} />
      {/* Spaces separate the visible words as in the label. */}
      {number && <span class="plan-number">{number}</span>}{" "}
      <span class="plan-text">{words}</span>{" "}
      {summary && <span class="dim plan-summary">{visibleLine(summary)}</span>}
    </button>
  );
}

export function Planned({ steps }: { steps: readonly PlannedStep[] }): JSX.Element {
  return (
    <section class="planned" aria-label={t("Plan")}>
      <p class="planned-head">
        <Icon name="plan" />
        <span>{steps.length === 0 ? t("No steps to plan") : t("Plan")}</span>
      </p>
      {steps.length > 0 && <Steps steps={steps} />}
    </section>
  );
}

function Steps({ steps }: { steps: readonly PlannedStep[] }): JSX.Element {
  return (
    <ol>
      {steps.map((step, index) => (
        <li key={index}>
          {visibleLine(step.goal)}
          {step.steps.length > 0 && <Steps steps={step.steps} />}
        </li>
      ))}
    </ol>
  );
}
