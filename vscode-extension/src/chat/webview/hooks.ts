import { Component, type ComponentType, h, type VNode } from "preact";
import { useState } from "preact/hooks";
import { isUnfolded, saveUnfolded } from "./host";

const open = new Map<string, boolean>();

/** Whether something is unfolded; remembered by its key for as long as the page lives. */
export function useOpen(key: string, initially = false): [boolean, () => void] {
  const [, again] = useState(0);
  const value = open.get(key) ?? initially;
  const toggle = (): void => {
    open.set(key, !value);
    again((n) => n + 1);
  };
  return [value, toggle];
}

/** The same for a part of the page that stays as it is when the window reloads. */
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

/** A component that is drawn again only when `same` says that its props differ. */
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
