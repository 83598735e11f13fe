/** What the model answered when it was asked for a plan: its steps, not its JSON. */
import type { JSX } from "preact";
import type { PlannedStep } from "../../session/plan";
import { Icon } from "./icons";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

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
