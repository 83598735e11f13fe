import type { JSX, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { completed, tokenAt, type Completion, type Token } from "../../composer/text";
import type { ToWebview } from "../messages";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

/** Icons by kind. Commands have none, because their slash marks them. */
const ICONS: Partial<Record<Completion["kind"], IconName>> = {
  file: "file", folder: "folder", symbol: "symbol", context: "attach", goal: "goal", session: "chat", agent: "agent", resource: "attach",
};
const LIST = "completions";

interface Open {
  token: Token;
  rows: readonly Completion[];
  /** Text shown when there are no rows. */
  nothing: string;
  active: number;
}

/** The list of completions and its handlers. */
export interface Completions {
  list: JSX.Element | null;
  /** ARIA attributes of the field while the list is open. */
  aria: object;
  /** Update the list when the text or the caret changes. */
  look: () => void;
  /** Handle a key; true when the list used it. */
  key: (event: KeyboardEvent) => boolean;
  close: () => void;
}

/** Show the names and commands that match the text. `onChoose` receives the new text and the chosen row. */
export function useCompletions(field: RefObject<HTMLTextAreaElement | null>, onChoose: (text: string, row: Completion) => void): Completions {
  const [open, setOpen] = useState<Open | null>(null);
  const asked = useRef<{ id: number; token: Token | null }>({ id: 0, token: null });
  const caret = useRef<number | null>(null);

  useEffect(() => {
    const onMessage = ({ data }: MessageEvent<ToWebview>): void => {
      const { token, id } = asked.current;
      if (data.type === "completions" && token && data.id === id) setOpen(data.rows.length > 0 || data.nothing ? { token, rows: data.rows, nothing: data.nothing, active: 0 } : null);
    };
    window.addEventListener("message", onMessage);
    return () => window.removeEventListener("message", onMessage);
  }, []);
  useLayoutEffect(() => {
    if (caret.current !== null) field.current?.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  });

  const close = (): void => {
    asked.current = { id: asked.current.id + 1, token: null };
    setOpen(null);
  };
  const look = (): void => {
    const element = field.current;
    if (element && element.selectionStart === element.selectionEnd) lookAt(element.value, element.selectionStart);
    else close();
  };
  const lookAt = (text: string, at: number): void => {
    const token = tokenAt(text, at);
    if (!token) {
      close();
      return;
    }
    if (JSON.stringify(token) === JSON.stringify(asked.current.token)) return;
    asked.current = { id: asked.current.id + 1, token };
    post({ type: "complete", id: asked.current.id, sign: token.sign, query: token.query, begins: text.slice(0, token.start).trim() === "" });
  };
  const choose = (row: Completion): void => {
    const element = field.current;
    if (!open || !element) return;
    const next = completed(element.value, element.selectionStart, open.token, row.insert);
    caret.current = next.caret;
    close();
    onChoose(next.text, row);
    if (row.leads) lookAt(next.text, next.caret);
    element.focus();
  };
  const move = (by: number): void => {
    if (open) setOpen({ ...open, active: (open.active + by + open.rows.length) % open.rows.length });
  };
  /** Whether the name of a file stands in the text in full. Other rows may lead further. */
  const isWritten = ({ kind, insert, leads }: Completion): boolean => {
    const element = field.current;
    return open !== null && kind === "file" && !leads && element?.value.slice(open.token.start, element.selectionStart) === insert.trim();
  };
  const key = (event: KeyboardEvent): boolean => {
    if (!open || event.isComposing || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return false;
    const row = open.rows[open.active];
    if (!row && event.key !== "Escape") return false;
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Enter" && row && isWritten(row)) {
      // Nothing is left to complete, so Enter sends, whether the list came in time or not.
      close();
      return false;
    } else if ((event.key === "Enter" || event.key === "Tab") && row) choose(row);
    else if (event.key === "Escape") setOpen(null);
    else return false;
    event.preventDefault();
    return true;
  };
  return {
    list: open && open.rows.length === 0 ? <p class="completions dim" role="status">{open.nothing}</p> : open && <List rows={open.rows} active={open.active} onChoose={choose} />,
    aria: open?.rows.length
      ? { role: "combobox", "aria-expanded": true, "aria-controls": LIST, "aria-activedescendant": `${LIST}-${open.active}`, "aria-autocomplete": "list" }
      : {},
    look,
    key,
    close,
  };
}

function List({ rows, active, onChoose }: { rows: readonly Completion[]; active: number; onChoose: (row: Completion) => void }): JSX.Element {
  const shown = useRef<HTMLLIElement>(null);
  useEffect(() => shown.current?.scrollIntoView({ block: "nearest" }), [active, rows]);
  return (
    <ul class="completions" id={LIST} role="listbox" aria-label={t("Suggestions")}>
      {rows.map((row, index) => {
        const icon = ICONS[row.kind];
        return (
        <li
          key={`${row.kind} ${row.insert}`}
          ref={index === active ? shown : null}
          id={`${LIST}-${index}`}
          role="option"
          aria-selected={index === active}
          title={visibleLine(row.detail)}
          // Keep the caret in the text.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(row)}
        >
          {icon && <Icon name={icon} />}
          <span class="completion-label">{visibleLine(row.label)}</span>
          <span class="dim completion-detail">{visibleLine(row.detail)}</span>
        </li>
        );
      })}
    </ul>
  );
}
