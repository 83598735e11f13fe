import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { changed, grantsOf, isBroad, isDefinition, type GrantDraft } from "../../permission/answers";
import { scopesFor, verb } from "../../permission/format";
import type { Grant, Scope } from "../../protocol.gen";
import { Box } from "./buttons";
import { Icon } from "./icons";
import { filled } from "./markup";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

interface AlwaysProps {
  drafts: readonly GrantDraft[];
  scope: Scope;
  disabled: boolean;
  onDrafts: (drafts: GrantDraft[]) => void;
  onScope: (scope: Scope) => void;
  onAccept: (grants: Grant[]) => void;
  onClose: () => void;
}

/** A form for what to remember and where, which the user can edit before it applies. */
export function Always({ drafts, scope, disabled, onDrafts, onScope, onAccept, onClose }: AlwaysProps): JSX.Element {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector<HTMLInputElement>("input[type=text]")?.focus(), []);
  const grants = grantsOf(drafts);
  const ready = grants.length > 0 && !disabled;
  const scopes = scopesFor(drafts.map(({ permission }) => permission));
  const where = scopes.find((one) => one.scope === scope);
  return (
    <form
      ref={form}
      class="extra always"
      aria-label={t("What to remember")}
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) onAccept(grants);
      }}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        onClose();
      }}
    >
      <p>{t("Always allow:")}</p>
      <ul class="patterns" aria-label={t("Patterns to remember")}>
        {drafts.map((draft, index) => (
          <Pattern key={index} draft={draft} number={index + 1} onChange={(change) => onDrafts(changed(drafts, index, change))} />
        ))}
      </ul>
      <p class="rule">
        {filled(t("{0} matches any text, {1} a single character."), <code>*</code>, <code>?</code>)}
      </p>
      <div class="scopes" role="radiogroup" aria-label={t("Where it applies")}>
        {scopes.map((one) => (
          <label key={one.scope} class={one.scope === scope ? "scope chosen" : "scope"} title={one.explanation}>
            <input type="radio" name="scope" value={one.scope} checked={one.scope === scope} onChange={() => onScope(one.scope)} />
            {one.label}
          </label>
        ))}
      </div>
      <p class="rule" aria-live="polite">
        {[where?.explanation ?? "", t("Manage it in “Goalwright: Permissions…”.")].join(" ")}
      </p>
      <button type="submit" class="primary" disabled={!ready} title={grants.length === 0 ? t("Choose at least one pattern") : ""}>
        {t("Always allow")}
      </button>
    </form>
  );
}

interface PatternProps {
  draft: GrantDraft;
  number: number;
  onChange: (change: Partial<Pick<GrantDraft, "pattern" | "chosen">>) => void;
}

function Pattern({ draft, number, onChange }: PatternProps): JSX.Element {
  const { permission, pattern, chosen } = draft;
  const kind = verb(permission).replace(/[:：]$/, "");
  // An input does not show invisible characters.
  const hidden = visibleLine(pattern) === pattern ? "" : visibleLine(pattern);
  return (
    <li class={chosen ? "" : "left-out"}>
      <Box label={t("Remember pattern {0}", number)} checked={chosen} onChange={(value) => onChange({ chosen: value })} />
      <span class="kind">{kind}</span>
      {isDefinition(draft) ? (
        <span class="definition">{t("this definition of {0}", permission)}</span>
      ) : (
        <input
          type="text"
          class="pattern"
          aria-label={t("Pattern {0}: {1}", number, kind)}
          spellcheck={false}
          autocomplete="off"
          value={pattern}
          onInput={(event) => onChange({ pattern: event.currentTarget.value })}
        />
      )}
      {hidden && (
        <p class="pattern-note">
          <Icon name="warning" />
          <span>
            {filled(t("Contains invisible characters: {0}"), <code>{hidden}</code>)}
          </span>
        </p>
      )}
      {isBroad(draft) && (
        <p class="pattern-note" role="status">
          <Icon name="warning" />
          <span>{t("No limit: allows everything that it {0}.", kind)}</span>
        </p>
      )}
    </li>
  );
}
