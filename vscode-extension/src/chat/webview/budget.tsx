import type { JSX } from "preact";
import { TextButton } from "./buttons";
import { Head, Refused, useReason, useReply, type CardProps } from "./request_card";
import { t } from "../../l10n";

/** The card for a run that has used up its budget. It offers other answers, because there is nothing to write. */
export function BudgetCard({ request, choice, count, position, keys }: CardProps): JSX.Element {
  const [sent, reply] = useReply(request, choice);
  const reason = useReason();
  return (
    <section class="approval" role="region" tabIndex={-1} aria-label={t("Budget reached")}>
      <Head request={request} count={count} position={position} />
      <div class="approval-body">
        <p class="rule">{t("Continuing gives the same amount again. Stopping ends the turn here; all work is kept.")}</p>
      </div>
      <Refused error={choice.error} />
      <div class="buttons">
        <TextButton label={t("Continue")} class="primary" disabled={sent} title={reason(t("Continue ({0})", keys.accept))} onClick={() => reply({ reply: "once" })} />
        <TextButton label={t("No more limit in this session")} disabled={sent} onClick={() => reply({ reply: "always" })} />
        <TextButton label={t("Stop here")} disabled={sent} title={reason(t("Stop here ({0})", keys.reject))} onClick={() => reply({ reply: "reject" })} />
      </div>
    </section>
  );
}
