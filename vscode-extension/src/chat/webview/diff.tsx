import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Box, TextButton } from "./buttons";
import { diffLines, type DiffLine } from "./difflines";
import { memo } from "./hooks";
import { visible } from "./visible";
import { t } from "../../l10n";

const SIGNS: Record<DiffLine["kind"], string> = { add: "+", remove: "−", same: " ", gap: "⋯", note: "" };
/** Further lines are shown on demand. */
const FIRST_LINES = 300;

/** The rejected hunks, where hunks can be chosen. */
interface Choosable {
  left: readonly number[];
  /** True when the boxes are read-only. */
  fixed: boolean;
  choose: (hunk: number, accepted: boolean) => void;
}

interface DiffProps {
  diff: string;
  choosable?: Choosable | undefined;
}

/** A unified diff with colors; signs show the same without color. */
export const Diff = memo(({ diff, choosable }: DiffProps): JSX.Element => {
  const [all, setAll] = useState(false);
  const lines = diffLines(diff, choosable !== undefined);
  const last = lines.at(-1)?.hunk ?? 0;
  const shown = all ? lines : lines.slice(0, FIRST_LINES);
  return (
    <div class="diff" tabIndex={0} role="group" aria-label={t("Diff")}>
      <table>
        <tbody>
          {shown.map((line, index) => {
            const out = choosable?.left.includes(line.hunk) ?? false;
            if (choosable && line.kind === "gap") return <Head key={index} line={line} last={last} out={out} choosable={choosable} />;
            return (
              <tr key={index} class={`line-${line.kind} ${out ? "left-out" : ""}`}>
                <td class="number">{line.newLine ?? line.oldLine ?? ""}</td>
                <td class="sign">{SIGNS[line.kind]}</td>
                <td class="text">{marked(line)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {shown.length < lines.length && (
        <TextButton label={t("Show all {0} lines", lines.length)} class="quiet" onClick={() => setAll(true)} />
      )}
    </div>
  );
}, sameDiff);

function sameDiff(a: DiffProps, b: DiffProps): boolean {
  return a.diff === b.diff && a.choosable?.left === b.choosable?.left && a.choosable?.fixed === b.choosable?.fixed;
}

interface HeadProps {
  line: DiffLine;
  last: number;
  out: boolean;
  choosable: Choosable;
}

/** The line where a hunk begins, with its checkbox. */
function Head({ line, last, out, choosable }: HeadProps): JSX.Element {
  const name = t("Hunk {0} of {1}", line.hunk + 1, last + 1);
  return (
    <tr class="line-gap line-head">
      <td colSpan={3}>
        <label class="head">
          <Box
            label={t("Accept {0}", name.toLowerCase())}
            checked={!out}
            disabled={choosable.fixed}
            onChange={(accepted) => choosable.choose(line.hunk, accepted)}
          />
          {name}
          {out && <span class="dim">{t("left out")}</span>}
        </label>
      </td>
    </tr>
  );
}

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

/** A path in one line. When space is short, folders are shortened and the file name is kept. */
export function FilePath({ path }: { path: string }): JSX.Element {
  const name = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1;
  return (
    <span class="file" dir="ltr">
      {name > 0 && <span class="file-folder">{path.slice(0, name)}</span>}
      <bdi class="file-name" dir="ltr">{path.slice(name)}</bdi>
    </span>
  );
}

/** Added and removed lines: `+3 −1`. */
export function Counts({ added, removed }: { added: number | undefined; removed: number | undefined }): JSX.Element | null {
  if (added === undefined && removed === undefined) return null;
  return (
    <span class="counts">
      <span class="added">+{added ?? 0}</span> <span class="removed">−{removed ?? 0}</span>
    </span>
  );
}
