// Texts of the interface in the user's language. The English text is the key of its translation, as in VS Code's l10n bundles.

/** @type {Readonly<Record<string, string>>} */
let catalogue = {};

/**
 * Sets the translations. Modules keep translated texts in constants, so call this before they are loaded.
 * @param {Readonly<Record<string, string>>} texts by English text; empty for English
 */
export function setCatalogue(texts) {
  catalogue = texts;
}

/**
 * Translates a text, with the signature of `vscode.l10n.t`.
 * @param {string} message in English, a literal, so that tests find it; `{0}`, `{1}` … stand for the values
 * @param {...(string | number)} values
 * @returns {string}
 */
export function t(message, ...values) {
  const text = Object.hasOwn(catalogue, message) ? (catalogue[message] ?? message) : message;
  return text.replace(/\{(\d+)\}/g, (whole, index) => (index in values ? String(values[index]) : whole));
}

/**
 * Translates a text that depends on a number.
 * @param {number} count
 * @param {string} one the text for 1
 * @param {string} many the text for all others
 * @param {...(string | number)} values of the placeholders; the number itself when there are none
 */
export function plural(count, one, many, ...values) {
  return t(count === 1 ? one : many, ...(values.length > 0 ? values : [count]));
}
