import { Component, type ComponentType, h, type VNode } from "preact";
import { useState } from "preact/hooks";
import { isUnfolded, saveUnfolded } from "./host";

const open = new Map<string, boolean>();

/** Return whether a part is expanded and a function to toggle it; remembered by key while the page lives. */
export function useOpen(key: string, initially = false): [boolean, () => void] {
  const [, again] = useState(0);
  const value = open.get(key) ?? initially;
  const toggle = (): void => {
    open.set(key, !value);
    again((n) => n + 1);
  };
  return [value, toggle];
}

/** Like `useOpen`, for a part whose state survives a reload of the window. */
export function useKeptOpen(part: string): [boolean, () => void] {
  const [value, toggle] = useOpen(part, isUnfolded(part));
  return [
    value,
    () => {
      saveUnfolded(part, !value);
      toggle();
    },
  ];
}

/** Call `then` for Enter in a text field. Shift+Enter is a new line, and Enter within an input method chooses its text. */
export function onEnter(event: KeyboardEvent, then: () => void): void {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  then();
}

/** Wrap a component to render again only when `same` reports different props. */
export function memo<P extends object>(
  inner: (props: P) => VNode | null,
  same: (a: P, b: P) => boolean = shallow,
): ComponentType<P> {
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return !same(this.props as P, next);
    }

    override render(): VNode {
      return h(inner as ComponentType<object>, this.props as object);
    }
  } as unknown as ComponentType<P>;
}

function shallow<P extends object>(a: P, b: P): boolean {
  const keys = Object.keys(b) as (keyof P)[];
  return keys.length === Object.keys(a).length && keys.every((key) => a[key] === b[key]);
}
