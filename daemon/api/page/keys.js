// The API and the store use snake_case; the page and the extension use camelCase, as in the extension's protocol.

/** Fields whose contents keep their keys, e.g. the arguments of a tool. */
const OPAQUE = new Set(["data", "input", "metadata"]);

/**
 * Converts keys to camelCase at every depth.
 * @param {any} value parsed JSON
 * @returns {any}
 */
export function camelKeys(value) {
  if (Array.isArray(value)) return value.map(camelKeys);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [
    key.replace(/(?<=[a-z0-9])_([a-z0-9])/g, (_, letter) => letter.toUpperCase()), OPAQUE.has(key) ? inner : camelKeys(inner),
  ]));
}
