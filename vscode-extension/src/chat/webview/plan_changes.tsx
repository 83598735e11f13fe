/** The plan in the transcript: a call's changes as checklist lines, and the steps of a plan that the model was asked for. */
import type { JSX } from "preact";
import type { GoalTree } from "../../protocol.gen";
import { planLine, type PlanChange, type PlanLine, type PlannedStep } from "../../session/plan";
import { showSection } from "./plan";
import { Icon, type IconName } from "./icons";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

const ICONS: Readonly<Record<PlanChange["operation"], IconName>> = {
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
      <Icon name={ICONS[operation]} />
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
