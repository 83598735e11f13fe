/** VS Code's settings by their names in config.json. Pure. */
import { SETTINGS, SWITCHES } from "./settings.gen";

/** The value of a setting that leaves the choice to config.json. */
export const UNSET = "default";

/** Return the settings that have a value, by the daemon's names. Unset ones are left to config.json. */
export function chosen(get: (name: string) => unknown): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, key] of Object.entries(SETTINGS)) {
    const value = get(name);
    const given = typeof value === "string" ? value.trim() : value;
    if (!isSet(given)) continue;
    values[key] = SWITCHES.has(key) ? given === "on" : given;
  }
  return values;
}

function isSet(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === UNSET) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
