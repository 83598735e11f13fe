import * as vscode from "vscode";
import { openFile } from "../chat/open";
import type { Daemon } from "../daemon/daemon";
import type { JobInfo } from "../protocol.gen";
import type { SessionController } from "../session/controller";
import { liveList } from "../live_list";
import { jobRow } from "./format";
import { t } from "../l10n";

const KILL: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("debug-stop"), tooltip: t("Stop") };
const OPEN: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("output"), tooltip: t("Open its output") };

interface Item extends vscode.QuickPickItem {
  job?: JobInfo;
}

/** List the session's background commands, to open their output or to stop them. Throws the daemon's error. */
export async function showJobs(daemon: Daemon, sessions: SessionController): Promise<void> {
  const { pick, run, closed } = liveList<Item>(t("Background Jobs"), t("Enter opens the output"));
  pick.matchOnDescription = true;
  const load = async (): Promise<void> => {
    const { sessionId } = sessions;
    const { jobs } = await daemon.request("goalwright/job/list", sessionId ? { sessionId } : {});
    pick.items = jobs.length > 0 ? [...jobs].reverse().map((job) => itemOf(job, Date.now())) : [{ label: t("No command runs in the background.") }];
  };
  const show = (job: JobInfo | undefined): void => {
    if (!job?.outputFile) return;
    const { outputFile } = job;
    pick.hide();
    void openFile(outputFile);
  };
  pick.onDidTriggerItemButton(({ item: { job }, button }) => {
    if (button !== KILL) return show(job);
    if (job) void run(() => daemon.request("goalwright/job/kill", { sessionId: job.sessionId, jobId: job.jobId }).then(load));
  });
  pick.onDidAccept(() => show(pick.selectedItems[0]?.job));
  pick.show();
  await run(load);
  await closed;
}

function itemOf(job: JobInfo, now: number): Item {
  const buttons = [...(job.exitCode === null ? [KILL] : []), ...(job.outputFile ? [OPEN] : [])];
  const icon = job.exitCode === null ? "loading~spin" : job.exitCode === 0 ? "pass" : "error";
  return { ...jobRow(job, now), iconPath: new vscode.ThemeIcon(icon), buttons, job };
}
