import type { JSX } from "preact";
import { Head, Refused, useReply, type CardProps } from "./answering";

/** A run that has used its budget: nothing is to be written, so the answers are other ones. */
export function BudgetCard({ request, choice, count, position, keys }: CardProps): JSX.Element {
  const [sent, reply] = useReply(request, choice);
  return (
    <section class="approval" role="region" aria-label="Budget reached">
      <Head request={request} count={count} position={position} />
      <div class="approval-body">
        <p class="rule">Continuing gives the same amount again. Stopping ends the turn here; everything is kept.</p>
      </div>
      <Refused error={choice.error} />
      <div class="buttons">
        <button type="button" class="primary" disabled={sent} title={`Continue (${keys.accept})`} onClick={() => reply({ reply: "once" })}>
          Continue
        </button>
        <button type="button" disabled={sent} onClick={() => reply({ reply: "always" })}>
          No more limit in this session
        </button>
        <button type="button" disabled={sent} title={`Stop here (${keys.reject})`} onClick={() => reply({ reply: "reject" })}>
          Stop here
        </button>
      </div>
    </section>
  );
}
