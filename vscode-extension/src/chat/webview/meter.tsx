import type { JSX } from "preact";
import { budgets, details, line, warningWords, type Limit } from "../../meter/model";
import type { GoalTree, Meter } from "../../protocol.gen";
import { TextButton } from "./buttons";
import { memo, useKeptOpen } from "./hooks";
import { Icon } from "./icons";
import { t } from "../../l10n";

interface MeterProps {
  meter: Meter;
  tree: GoalTree;
}

/** Context size and cost of the session in one line, with details on demand. */
export const MeterPanel = memo(({ meter, tree }: MeterProps): JSX.Element => {
  const [open, toggle] = useKeptOpen("meter");
  const { context, filled, near, costly, cost, cache, spoken } = line(meter, tree);
  const words = [t("{0} tokens", context), cost, cache, costly].filter(Boolean).join(", ");
  return (
    <section class="meter" aria-label={t("Context and cost")}>
      {open && <Details meter={meter} tree={tree} />}
      <div class="meter-row">
        <div
          class={near ? "gauge near" : "gauge"}
          role="meter"
          aria-label={t("Context used")}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(filled * 100)}
          aria-valuetext={spoken}
          title={spoken}
          onClick={toggle}
        >
          <div class="gauge-fill" style={{ width: `${filled * 100}%` }} />
        </div>
        <button type="button" class="meter-words" aria-expanded={open} title={words} onClick={toggle}>
          <span class="only-spoken">{t("Session numbers: {0}", words)}</span>
          <span class="meter-context" aria-hidden="true">
            {context}
          </span>
          {cost && (
            <span class={costly ? "meter-cost near" : "meter-cost"} aria-hidden="true">
              {cost}
            </span>
          )}
          {cache && (
            <span class="meter-cache" aria-hidden="true">
              {cache}
            </span>
          )}
          <Icon name="chevron" />
        </button>
      </div>
    </section>
  );
});

function Details({ meter, tree }: MeterProps): JSX.Element {
  const limits = budgets(meter, tree);
  return (
    <div class="meter-details">
      <dl>
        {details(meter, tree).map(({ label, words }) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{words.join(" · ")}</dd>
          </div>
        ))}
        <div>
          <dt>{t("Budget")}</dt>
          <dd>
            {limits.length === 0 ? [t("no limit"), warningWords(meter)].filter(Boolean).join(" · ") : limits.map((limit) => <LimitLine key={limit.key} limit={limit} />)}
          </dd>
        </div>
      </dl>
      <div class="buttons">
        <TextButton label={t("Compact now")} message={{ type: "command", command: "compact", args: ["meter"] }} />
        <TextButton label={t("Show what the model sees")} message={{ type: "command", command: "showContext" }} />
        <TextButton label={t("Set budget…")} message={{ type: "command", command: "setBudget" }} />
      </div>
    </div>
  );
}

function LimitLine({ limit: { what, words, used, limit, near } }: { limit: Limit }): JSX.Element {
  const share = limit > 0 ? Math.min(1, used / limit) : 1;
  return (
    <span class="limit">
      <span>{`${what}: ${words}`}</span>
      <span
        class={near ? "gauge near" : "gauge"}
        role="meter"
        aria-label={t("{0}: budget used", what)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
        aria-valuetext={words}
      >
        <span class="gauge-fill" style={{ width: `${share * 100}%` }} />
      </span>
    </span>
  );
}

