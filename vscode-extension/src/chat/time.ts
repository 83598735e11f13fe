import { t } from "../l10n";
/** Format a time in the past: `just now`, `5 min ago`, `3 h ago`, `yesterday`, `12 days ago`. `now` in milliseconds. */
export function ago(iso: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (Number.isNaN(minutes)) return "";
  if (minutes < 1) return t("just now");
  if (minutes < 60) return t("{0} min ago", minutes);
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return t("{0} h ago", hours);
  const days = Math.floor(hours / 24);
  return days === 1 ? t("yesterday") : t("{0} days ago", days);
}
