import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { FileDiff, PermissionRequest, Reply } from "../../protocol.gen";
import { Counts, Diff } from "./diff";
import { useOpen } from "./hooks";
import { post } from "./host";
import { Icon } from "./icons";
import { visible, visibleLine } from "./visible";

/** After this time the buttons work again, should an answer have got lost. */
const PATIENCE_MS = 5_000;

interface ApprovalProps {
  requests: readonly PermissionRequest[];
  keys: { accept: string; reject: string };
}

/** The oldest open request, docked above the composer where it cannot be missed. */
export function Approval({ requests, keys }: ApprovalProps): JSX.Element | null {
  const [request] = requests;
  return request ? <Card key={request.requestId} request={request} count={requests.length} keys={keys} /> : null;
}

type Mode = "plain" | "always" | "feedback";

interface CardProps {
  request: PermissionRequest;
  count: number;
  keys: { accept: string; reject: string };
}

function Card({ request, count, keys }: CardProps): JSX.Element {
  const [mode, setMode] = useState<Mode>("plain");
  const [sent, setSent] = useState(false);
  useEffect(() => {
    const timer = sent ? setTimeout(() => setSent(false), PATIENCE_MS) : undefined;
    return () => clearTimeout(timer);
  }, [sent]);
  const reply = (answer: Reply, feedback?: string): void => {
    setSent(true);
    post({ type: "reply", requestId: request.requestId, reply: answer, ...(feedback ? { feedback } : {}) });
  };
  // With a diff to look at, the detail is a remark; without one it is what would be done.
  const command = request.files.length === 0 || request.detail.includes("\n") ? request.detail : "";
  const flip = (to: Mode) => (): void => setMode(mode === to ? "plain" : to);
  return (
    <section class="approval" role="region" aria-label="Approval needed">
      <header>
        <Icon name="waiting" />
        <h2>{visibleLine(request.title)}</h2>
        {count > 1 && <span class="dim">{`1 of ${count}`}</span>}
      </header>
      <div class="approval-body">
        {command && <pre class="io">{visible(command)}</pre>}
        {request.files.map((file) => (
          <ProposedFile key={file.path} request={request} file={file} />
        ))}
        <p class="rule">{[command ? "" : visible(request.detail), reason(request)].filter(Boolean).join(" · ")}</p>
      </div>
      {mode === "always" && <Patterns request={request} disabled={sent} accept={() => reply("always")} />}
      {mode === "feedback" && <Feedback disabled={sent} send={(text) => reply("reject", text)} />}
      <div class="buttons">
        <button type="button" class="primary" disabled={sent} title={`Accept (${keys.accept})`} onClick={() => reply("once")}>
          Accept
        </button>
        {request.suggestions.length > 0 && (
          <button type="button" disabled={sent} aria-expanded={mode === "always"} onClick={flip("always")}>
            Always…
          </button>
        )}
        <button type="button" disabled={sent} title={`Reject (${keys.reject})`} onClick={() => reply("reject")}>
          Reject
        </button>
        <button type="button" disabled={sent} aria-expanded={mode === "feedback"} onClick={flip("feedback")}>
          Reject with feedback
        </button>
        {request.files.length > 0 && (
          <button
            type="button"
            class="quiet"
            onClick={() => post({ type: "openDiff", requestId: request.requestId })}
          >
            Open diff
          </button>
        )}
      </div>
    </section>
  );
}

/** Which rule made this a question, in words. */
function reason({ rule }: PermissionRequest): string {
  const whose = {
    shipped: "the built-in rule",
    user: "your own rule",
    workspace: "this folder's rule",
    editor: "your VS Code setting",
    session: "this session's rule",
    agent: "the agent's rule",
  }[rule.source];
  return visibleLine(`asked because of ${whose} ${rule.permission}: ${rule.pattern} → ${rule.action}`);
}

const SMALL_DIFF = 4_000;

function ProposedFile({ request, file }: { request: PermissionRequest; file: FileDiff }): JSX.Element {
  const small = request.files.length <= 3 && file.diff.length <= SMALL_DIFF;
  const [open, toggle] = useOpen(`proposed-${request.requestId}-${file.path}`, small || request.files.length === 1);
  const what = { create: "new file", update: "", delete: "deleted" }[file.kind];
  return (
    <div class="proposed">
      <button
        type="button"
        class="fold"
        aria-expanded={open}
        aria-label={`${visibleLine(file.path)} +${file.added} −${file.removed}`}
        onClick={toggle}
      >
        <Icon name="chevron" />
        <span class="file">{visibleLine(file.path)}</span>
        {what && <span class="dim">{what}</span>}
        <Counts added={file.added} removed={file.removed} />
      </button>
      {open && file.diff && <Diff diff={file.diff} />}
    </div>
  );
}

function Patterns({ request, disabled, accept }: { request: PermissionRequest; disabled: boolean; accept: () => void }): JSX.Element {
  return (
    <div class="extra">
      <p>For the rest of this session, do not ask again for:</p>
      <ul class="patterns" aria-label="Patterns to remember">
        {request.suggestions.map((pattern) => (
          <li key={pattern}>
            <code>{visibleLine(`${request.permission}: ${pattern}`)}</code>
          </li>
        ))}
      </ul>
      <button type="button" class="primary" disabled={disabled} onClick={accept}>
        Accept and remember
      </button>
    </div>
  );
}

function Feedback({ disabled, send }: { disabled: boolean; send: (text: string) => void }): JSX.Element {
  const [text, setText] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const ready = text.trim() !== "" && !disabled;
  return (
    <div class="extra">
      <textarea
        ref={field}
        rows={2}
        aria-label="Feedback"
        placeholder="What should Goalwright do instead? It goes on with your answer."
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          if (ready) send(text);
        }}
      />
      <button type="button" class="primary" disabled={!ready} onClick={() => send(text)}>
        Send feedback
      </button>
    </div>
  );
}
