/**
 * Return a text for a notification or the message of an input box without links. VS Code makes links of `[text](address)`
 * there, and a click on one can run a command: titles, file names and errors could bring their own.
 */
export function unlinked(text: string): string {
  return text.replaceAll("](", "] (");
}
