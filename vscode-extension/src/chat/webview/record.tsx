/** The header above the record of a branch or sub-agent: its title and a button back to the session. */
import type { JSX } from "preact";
import { askerName } from "../../explore/format";
import type { SessionState } from "../../session/state";
import { IconButton, TextButton } from "./buttons";
import { Icon } from "./icons";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

export function RecordHead({ record }: { record: SessionState }): JSX.Element {
  const { traceId, title } = record.session.trace;
  const name = askerName(traceId.split(":")[1] ?? "");
  return (
    <header class="bar">
      <IconButton icon="back" label={t("Back to the session")} message={{ type: "closeRecord" }} />
      <h1 title={title} dir="auto">{visibleLine([name, title].filter(Boolean).join(" · "))}</h1>
    </header>
  );
}

export function RecordBar({ record }: { record: SessionState }): JSX.Element {
  const live = record.session.status !== "idle";
  return (
    <div class="record" role="status">
      <Icon name={live ? "running" : "plan"} />
      <span>
        {`${live ? t("Live, read-only.") : t("Read-only transcript.")} `}
        <TextButton label={t("Back to the session")} class="quiet" message={{ type: "closeRecord" }} />
      </span>
    </div>
  );
}
