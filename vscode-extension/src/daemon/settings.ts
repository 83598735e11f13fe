/** VS Code's settings under the names of config.json. Pure. */
import { SETTINGS, SWITCHES } from "./settings.gen";

/** The value that says: as in config.json. */
export const UNSET = "default";

/** What is set, by the daemon's names. A value that says nothing leaves it to config.json. */
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
