import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { requestTitle } from "../../explore/format";
import { isBudget } from "../../meter/model";
import { isQuestion } from "../../permission/answers";
import type { PermissionRequest } from "../../protocol.gen";
import { SILENCE, spoken, stateWords } from "../../session/screen_reader";
import type { SessionState } from "../../session/state";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

/**
 * Announce to screen readers what sighted users see at a glance. An answer is read by paragraph in idle moments, a
 * request at once and only once. The transcript itself is silent, or every streamed word would be read.
 */
export function Announcer({ session, shown }: { session: SessionState | null; shown: SessionState | null }): JSX.Element {
  const heard = useRef(SILENCE);
  heard.current = spoken(heard.current, shown);
  const asked = session?.pending[0];
  return (
    <div class="only-spoken">
      <div aria-live="assertive">{asked && <p key={asked.requestId}>{requestWords(asked)}</p>}</div>
      <div aria-live="polite" aria-relevant="additions">
        {heard.current.lines.map(({ key, text }) => (
          <p key={key}>{visibleLine(text)}</p>
        ))}
      </div>
      <div aria-live="polite">{stateWords(shown)}</div>
    </div>
  );
}

function requestWords(request: PermissionRequest): string {
  const kind = isQuestion(request) ? t("Question") : isBudget(request) ? t("Budget reached") : t("Approval needed");
  // A question's title is the question itself.
  const asked = request.questions.length > 1 ? request.questions.map(({ text }) => text) : [];
  return visibleLine([`${kind}: ${requestTitle(request)}`, ...asked, ...request.warnings].join(". "));
}
