import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { diffLines, type DiffLine } from "./difflines";
import { memo } from "./hooks";
import { visible } from "./visible";

const SIGNS: Record<DiffLine["kind"], string> = { add: "+", remove: "−", same: " ", gap: "⋯", note: "" };
/** More lines are shown on demand. */
const FIRST_LINES = 300;

/** A unified diff, coloured; the signs say the same without colour. */
export const Diff = memo(({ diff }: { diff: string }): JSX.Element => {
  const [all, setAll] = useState(false);
  const lines = diffLines(diff);
  const shown = all ? lines : lines.slice(0, FIRST_LINES);
  return (
    <div class="diff" tabIndex={0} role="group" aria-label="Diff">
      <table>
        <tbody>
          {shown.map((line, index) => (
            <tr key={index} class={`line-${line.kind}`}>
              <td class="number">{line.newLine ?? line.oldLine ?? ""}</td>
              <td class="sign">{SIGNS[line.kind]}</td>
              <td class="text">{marked(line)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < lines.length && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          Show all {lines.length} lines
        </button>
      )}
    </div>
  );
});

function marked({ text, changed }: DiffLine): JSX.Element | string {
  if (!changed) return visible(text);
  const [start, end] = changed;
  return (
    <>
      {visible(text.slice(0, start))}
      <mark>{visible(text.slice(start, end))}</mark>
      {visible(text.slice(end))}
    </>
  );
}

/** `+3 −1`, as in the title of a change. */
export function Counts({ added, removed }: { added: number | undefined; removed: number | undefined }): JSX.Element | null {
  if (added === undefined && removed === undefined) return null;
  return (
    <span class="counts">
      <span class="added">+{added ?? 0}</span> <span class="removed">−{removed ?? 0}</span>
    </span>
  );
}
