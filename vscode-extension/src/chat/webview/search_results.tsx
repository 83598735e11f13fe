/** Results of reading and searching: a file's lines as code, and matches that link to the editor. */
import type { JSX } from "preact";
import { foundOf, listingOf, type Found, type Listing } from "../../session/tool_results";
import type { ToolView } from "../../session/tools";
import { TextButton } from "./buttons";
import { highlight } from "./highlight";
import { post } from "./host";
import { visible, visibleLine } from "./visible";
import { t } from "../../l10n";

/** Return a result as code or places; undefined for other results. */
export function lookedAt({ call, result, path }: ToolView): JSX.Element | undefined {
  if (!result || result.isError) return undefined;
  const listing = call.name === "read" ? listingOf(result.content) : undefined;
  if (listing) return <Lines listing={listing} path={path ?? ""} />;
  const found = call.name === "grep" || call.name === "glob" ? foundOf(call.name, result.content) : undefined;
  return found && <Places found={found} />;
}

function Lines({ listing: { first, code, notes }, path }: { listing: Listing; path: string }): JSX.Element {
  const shown = visible(code);
  const html = highlight(shown, /\.(\w+)$/.exec(path)?.[1] ?? "");
  const numbers = code.split("\n").map((_, index) => first + index);
  return (
    <>
      <div class="io listing" tabIndex={0} role="region" aria-label={visibleLine(path)}>
        <pre class="gutter" aria-hidden="true">
          {numbers.join("\n")}
        </pre>
        <pre>{html === undefined ? <code>{shown}</code> : <code dangerouslySetInnerHTML={{ __html: html }} />}</pre>
      </div>
      <Notes notes={notes} />
    </>
  );
}

function Places({ found: { files, notes } }: { found: Found }): JSX.Element {
  return (
    <>
      <ul class="io places" aria-label={t("Found")}>
        {files.map(({ path, hits }, index) => (
          <li key={index}>
            <TextButton label={visibleLine(path)} class="path" message={{ type: "openFile", path }} />
            {hits.map(({ line, text }, at) => (
              <button key={at} type="button" class="hit" aria-label={`${visibleLine(path)}:${line} ${visibleLine(text.trim())}`} title={`${visibleLine(path)}:${line}`} onClick={() => post({ type: "openFile", path, line })}>
                <span class="hit-line">{line}</span>
                <code>{visibleLine(text.trim())}</code>
              </button>
            ))}
          </li>
        ))}
      </ul>
      <Notes notes={notes} />
    </>
  );
}

function Notes({ notes }: { notes: readonly string[] }): JSX.Element | null {
  return notes.length > 0 ? <p class="dim looked-notes">{visible(notes.join("\n"))}</p> : null;
}
