/** The reasons for a request: the rule behind each action, and warnings about irreversible actions. */
import { Fragment, type JSX } from "preact";
import { needs, reasonLines, ruleText, shortPath, whose, type Places, type ReasonLine } from "../../permission/format";
import type { PermissionRequest } from "../../protocol.gen";
import { TextButton } from "./buttons";
import { useOpen } from "./hooks";
import { Icon } from "./icons";
import { filled } from "./markup";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

/** Number of lines to show at first. */
const SHOWN = 5;

export function Warnings({ warnings }: { warnings: readonly string[] }): JSX.Element | null {
  if (warnings.length === 0) return null;
  return (
    <ul class="warnings" aria-label={t("Warnings")}>
      {warnings.map((warning) => (
        <li key={warning}>
          <Icon name="warning" />
          <span>{visibleLine(warning)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Further notes from Goalwright, e.g. that a command runs outside the sandbox. */
export function Notes({ notes }: { notes: readonly string[] }): JSX.Element {
  return (
    <>
      {notes.map((note) => (
        <p key={note} class="note">
          {visibleLine(note)}
        </p>
      ))}
    </>
  );
}

/** The model's own explanation, marked as such and placed below the facts, because it may be wrong. */
export function ModelSays({ words }: { words: string }): JSX.Element | null {
  if (!words) return null;
  return (
    <p class="model-says">
      <span class="dim">{`${t("The model says:")} `}</span>
      {`“${visibleLine(words)}”`}
    </p>
  );
}

export function Reasons({ request, places }: { request: PermissionRequest; places: Places }): JSX.Element {
  const [open, toggle] = useOpen(`reasons-${request.requestId}`);
  const lines = reasonLines(request);
  const [only] = lines;
  if (lines.length === 1 && only && only.rule.source === "shipped" && only.rule.pattern === "*" && !only.why) {
    // A default rule for all actions of this kind matters only to users who want to change it, so it is folded.
    return (
      <>
        <p class="rule">
          {`${needs(only.rule.permission)} · `}
          <TextButton label={t("Why?")} class="quiet" aria-expanded={open} onClick={toggle} />
        </p>
        {open && (
          <p class="rule">
            {filled(t("Asked by {0}. To change this, add your own rule or use another mode."), <RuleName line={only} places={places} />)}
          </p>
        )}
      </>
    );
  }
  if (lines.length === 1 && only && only.targets.length === 0) {
    return (
      <p class="rule">
        {filled(
          only.rule.source === "protected" ? t("Asked because it is {0}") : only.rule.words ? t("Asked because {0}") : t("Asked by {0}"),
          <RuleName line={only} places={places} />,
        )}
      </p>
    );
  }
  // One more line takes as much space as the button that would hide it.
  const shown = open || lines.length <= SHOWN + 1 ? lines : lines.slice(0, SHOWN);
  return (
    <div class="reasons">
      <ul aria-label={t("Why you are asked")}>
        {shown.map((line, index) => (
          <li key={index}>
            <span class="reason-what">
              <span class="dim">{line.verb}</span>
              {line.targets.map((target) => (
                <Fragment key={target}>
                  {" "}
                  <code>{visibleLine(target)}</code>
                </Fragment>
              ))}
            </span>
            <span class="rule">
              <span class="only-spoken">: </span>
              <RuleName line={line} places={places} />
            </span>
          </li>
        ))}
      </ul>
      {lines.length > SHOWN + 1 && (
        <TextButton label={open ? t("Show less") : t("Show all {0}", lines.length)} class="quiet" aria-expanded={open} onClick={toggle} />
      )}
    </div>
  );
}

/** The rule in words, with a link to its file. */
function RuleName({ line: { rule, why }, places }: { line: ReasonLine; places: Places }): JSX.Element {
  const { file } = rule;
  if (rule.words) return <span class="rule-text">{visibleLine(rule.words)}</span>;
  return (
    <>
      {filled(
        file ? t("{0} in {1}") : "{0}",
        <>
          {`${whose(rule)} `}
          <span class="rule-text">{visibleLine(ruleText(rule))}</span>
        </>,
        <TextButton label={visibleLine(shortPath(file, places))} class="path" title={t("Open {0}", visibleLine(file))} message={{ type: "openFile", path: file }} />,
      )}
      {why && ` · ${visibleLine(why)}`}
    </>
  );
}
