import type { JSX } from "preact";

/** The contents of each drawing, in a box of 16 × 16. */
const DRAWINGS = {
  chevron: '<path d="M6 4l4 4-4 4"/>',
  check: '<path d="M3 8.5l3.2 3.2L13 4.8"/>',
  copy: '<path d="M5.5 5.5h7.3v7.3H5.5zM3.2 10.5V3.2h7.3"/>',
  terminal: '<path d="M2.2 3.2h11.6v9.6H2.2zM4.8 6l2.2 2-2.2 2M8.4 10.4h3"/>',
  checked: '<path d="M2.7 2.7h10.6v10.6H2.7zM5 8.2l2.2 2.2L11 6"/>',
  moved: '<path d="M5 13V3.5M2.8 5.7L5 3.3l2.2 2.4M11 3v9.5M8.8 10.3l2.2 2.4 2.2-2.4"/>',
  cross: '<path d="M4 4l8 8M12 4l-8 8"/>',
  denied: '<circle cx="8" cy="8" r="5.5"/><path d="M4.2 4.2l7.6 7.6"/>',
  pending: '<circle cx="8" cy="8" r="5.5" stroke-dasharray="2.2 2.2"/>',
  running: '<path d="M8 2.5a5.5 5.5 0 1 1-5.5 5.5" class="spin"/>',
  waiting: '<circle cx="8" cy="8" r="5.5"/><path d="M8 5v3.5M8 10.7v.3"/>',
  send: '<path d="M8 13V3.5M3.8 7.5L8 3.3l4.2 4.2"/>',
  steer: '<path d="M3.5 3v4.2a3 3 0 0 0 3 3h6M9.5 7.2l3 3-3 3"/>',
  stop: '<rect x="4" y="4" width="8" height="8" rx="1.2" fill="currentColor" stroke="none"/>',
  down: '<path d="M8 3v9.5M3.8 8.5L8 12.7l4.2-4.2"/>',
  back: '<path d="M13 8H3.5M7.5 3.8L3.3 8l4.2 4.2"/>',
  edit: '<path d="M10.8 2.9l2.3 2.3-7.6 7.6-2.9.6.6-2.9z"/>',
  undo: '<path d="M5.5 3.2L2.8 6l2.7 2.8M3 6h6.2a3.6 3.6 0 0 1 0 7.2H6"/>',
  fork: '<circle cx="4.5" cy="3.6" r="1.5"/><circle cx="4.5" cy="12.4" r="1.5"/><circle cx="11.5" cy="5.4" r="1.5"/><path d="M4.5 5.1v5.8M11.5 6.9c0 2.6-7 1.4-7 4"/>',
  redo: '<path d="M10.5 3.2L13.2 6l-2.7 2.8M13 6H6.8a3.6 3.6 0 0 0 0 7.2H10"/>',
  restore: '<path d="M2.7 4.2v3h3M3 7a5.3 5.3 0 1 1-.3 2.6M8 5.3v3l2 1.4"/>',
  goal: '<circle cx="8" cy="8" r="5.5"/><circle cx="8" cy="8" r="1.6" fill="currentColor" stroke="none"/>',
  plus: '<path d="M8 3.5v9M3.5 8h9"/>',
  more: '<path d="M3.5 8h.1M8 8h.1M12.5 8h.1" stroke-width="2.2"/>',
  attach: '<path d="M12.6 7.3l-4.9 4.9a3 3 0 0 1-4.2-4.2l5.3-5.3a2 2 0 0 1 2.8 2.8l-5.2 5.2a1 1 0 0 1-1.4-1.4l4.5-4.5"/>',
  file: '<path d="M4 2.2h5l3 3v8.6H4zM9 2.2v3h3"/>',
  folder: '<path d="M2 4.2c0-.6.4-1 1-1h3.2l1.4 1.6H13c.6 0 1 .4 1 1v6c0 .6-.4 1-1 1H3c-.6 0-1-.4-1-1z"/>',
  symbol: '<path d="M8 2l5 2.8v6.4L8 14l-5-2.8V4.8zM3 4.8l5 2.8 5-2.8M8 7.6V14"/>',
  chat: '<path d="M2.5 3.5h11v7.5H8l-3 2.5V11H2.5z"/>',
  agent: '<path d="M8 2.2a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2M3 13.6c0-2.6 2.2-4.2 5-4.2s5 1.6 5 4.2"/>',
  eye: '<path d="M1.8 8C3.2 5.4 5.4 4 8 4s4.8 1.4 6.2 4c-1.4 2.6-3.6 4-6.2 4S3.2 10.6 1.8 8zM8 6.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6"/>',
  hidden: '<path d="M1.8 8C3.2 5.4 5.4 4 8 4s4.8 1.4 6.2 4c-1.4 2.6-3.6 4-6.2 4S3.2 10.6 1.8 8zM3 13L13 3"/>',
  shield: '<path d="M8 1.8l5 1.9v4c0 3.1-2.1 5.4-5 6.5-2.9-1.1-5-3.4-5-6.5v-4z"/>',
  plan: '<path d="M3 3.5h3.2c1 0 1.8.8 1.8 1.8v7.5c0-.8-.7-1.4-1.6-1.4H3zM13 3.5H9.8c-1 0-1.8.8-1.8 1.8v7.5c0-.8.7-1.4 1.6-1.4H13z"/>',
  auto: '<path d="M9.2 1.8L3.8 9h3.7l-.7 5.2L12.2 7H8.5z"/>',
  fold: '<path d="M8 2v3.5M5.8 3.8L8 6l2.2-2.2M8 14v-3.5M5.8 12.2L8 10l2.2 2.2M3 8h10"/>',
  warning: '<path d="M8 2.8l5.8 10.4H2.2zM8 6.8v3M8 11.5v.2"/>',
  info: '<circle cx="8" cy="8" r="5.5"/><path d="M8 7.4V11M8 5v.2"/>',
  insert: '<path d="M2.8 3.5h10.4M2.8 12.5h10.4M2.8 8h5.5M13 6v4M10.6 8H13"/>',
};

export type IconName = keyof typeof DRAWINGS;

/** A decorative drawing; the surrounding element has the label. */
export function Icon({ name }: { name: IconName }): JSX.Element {
  return <svg class={`icon icon-${name}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false" dangerouslySetInnerHTML={{ __html: DRAWINGS[name] }} />;
}

/** Return a drawing as HTML. */
export function drawn(name: IconName): string {
  return `<svg class="icon icon-${name}" viewBox="0 0 16 16" aria-hidden="true" focusable="false">${DRAWINGS[name]}</svg>`;
}
