import type { JSX } from "preact";
import { useContext } from "preact/hooks";
import { fileChoice, fileLabel, isDecided, units, type Choice } from "../../diff/choice";
import type { FileDiff, PermissionRequest } from "../../protocol.gen";
import { Box, IconButton, TextButton } from "./buttons";
import { Away, useReason } from "./request_card";
import { Counts, Diff, FilePath } from "./diff";
import { kept } from "./difflines";
import { useOpen } from "./hooks";
import { post } from "./host";
import { Icon } from "./icons";
import { filled } from "./markup";
import { visibleLine } from "./visible";
import { t } from "../../l10n";

const SMALL_DIFF = 4_000;

interface ProposedProps {
  request: PermissionRequest;
  file: FileDiff;
  choice: Choice;
}

/** One file of a proposal: its diff, with boxes to accept or reject hunks. */
export function ProposedFile({ request, file, choice }: ProposedProps): JSX.Element {
  const { requestId } = request;
  const small = request.files.length <= 3 && file.diff.length <= SMALL_DIFF;
  const [open, toggle] = useOpen(`proposed-${requestId}-${file.path}`, small || request.files.length === 1);
  const { left, edited, out, own: made } = fileChoice(choice, file.path);
  const count = units(file);
  const own = edited !== "no";
  const none = own ? out : left.length === count;
  const what = file.movedFrom ? t("moved") : { create: t("new file"), update: "", delete: t("deleted") }[file.kind];
  const shown = own ? (made ?? { ...file, diff: "" }) : file;
  const { added, removed } = own || left.length === 0 ? shown : kept(file, left);
  const label = visibleLine(fileLabel(file));
  const several = request.files.length > 1;
  const choosable = count > 1 && !own ? { left, fixed: false, choose: pick } : undefined;
  function pick(hunk: number | undefined, accepted: boolean): void {
    post({ type: "choose", requestId, path: file.path, accepted, ...(hunk === undefined ? {} : { hunk }) });
  }
  function decide(accepted: boolean): void {
    post({ type: "decideFile", requestId, path: file.path, accepted });
  }
  return (
    <div class={`proposed ${none ? "left-out" : ""} `}>
      <div class="proposed-row">
        {(request.files.length > 1 || count > 1) && (
          <Box
            label={t("Accept {0}", label)}
            checked={!none}
            mixed={!own && left.length > 0 && !none}
            disabled={own && request.files.length === 1}
            onChange={(accepted) => pick(undefined, accepted)}
          />
        )}
        <button type="button" class="fold" aria-expanded={open} aria-label={`${label} +${added} −${removed}`} onClick={toggle}>
          <Icon name="chevron" />
          <FilePath path={label} />
          <Counts added={added} removed={removed} />
        </button>
        {what && <span class="dim count">{what}</span>}
        {several && <span class="dim count">{t("{0} of {1}", request.files.indexOf(file) + 1, request.files.length)}</span>}
        {several && (isDecided(file, choice) ? <span class="dim">{none ? t("rejected") : t("accepted")}</span> : <FileButtons label={label} decide={decide} />)}
      </div>
      {own && (
        <p class="own">
          <Icon name="edit" />
          <span class="own-words">
            {filled(edited === "nothing" ? t("{0}: no part of the change is left") : t("{0}: the diff shows your text"), <strong>{t("edited by you")}</strong>)}
          </span>
          <TextButton label={t("Discard my edits")} class="quiet" message={{ type: "discardEdits", requestId, path: file.path }} />
        </p>
      )}
      {open && shown.diff && <Diff diff={shown.diff} choosable={choosable} />}
    </div>
  );
}


/** Buttons that accept or reject one of several files. */
function FileButtons({ label, decide }: { label: string; decide: (accepted: boolean) => void }): JSX.Element {
  const away = useContext(Away);
  const reason = useReason();
  return (
    <>
      <IconButton icon="check" label={t("Accept file {0}", label)} disabled={away} title={reason(t("Accept file"))} onClick={() => decide(true)} />
      <IconButton icon="cross" label={t("Reject file {0}", label)} disabled={away} title={reason(t("Reject file"))} onClick={() => decide(false)} />
    </>
  );
}
