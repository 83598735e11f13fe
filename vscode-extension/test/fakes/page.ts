/** As much of a page as Preact asks for, and which of its elements got the focus. */
export class FakeNode {
  title: unknown;
  parentNode: FakeNode | null = null;
  childNodes: FakeNode[] = [];
  readonly listeners = new Map<string, (event: unknown) => void>();
  readonly style = {};
  data = "";

  constructor(
    readonly localName: string,
    readonly page: FakePage,
  ) {}

  get firstChild(): FakeNode | null {
    return this.childNodes[0] ?? null;
  }

  get nextSibling(): FakeNode | null {
    const siblings = this.parentNode?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  insertBefore(node: FakeNode, before: FakeNode | null): void {
    node.remove();
    this.childNodes.splice(before ? this.childNodes.indexOf(before) : this.childNodes.length, 0, node);
    node.parentNode = this;
  }

  remove(): void {
    if (this.parentNode) this.parentNode.childNodes = this.parentNode.childNodes.filter((one) => one !== this);
    this.parentNode = null;
  }

  removeChild(node: FakeNode): void {
    node.remove();
  }

  setAttribute(name: string, value: unknown): void {
    Object.assign(this, { [`@${name}`]: value });
  }

  removeAttribute(): void {}

  addEventListener(name: string, listener: (event: unknown) => void): void {
    this.listeners.set(name, listener);
  }

  focus(): void {
    this.page.focused.push(this.localName);
  }

  querySelectorAll(): FakeNode[] {
    return [];
  }

  all(name: string): FakeNode[] {
    return this.childNodes.flatMap((node) => [...(node.localName === name ? [node] : []), ...node.all(name)]);
  }
}

export class FakePage {
  readonly focused: string[] = [];
  readonly body = new FakeNode("body", this);
  createElementNS = (_: string, name: string): FakeNode => new FakeNode(name, this);
  createElement = (name: string): FakeNode => new FakeNode(name, this);
  createTextNode = (data: string): FakeNode => Object.assign(new FakeNode("#text", this), { data });
  getElementById = (): null => null;
}

/** All that is written in an element. */
export function words(node: FakeNode): string {
  return node.data + node.childNodes.map(words).join("");
}

/** Presses a button as the page's user does. */
export function click(node: FakeNode | undefined): void {
  const entry = node && [...node.listeners].find(([name]) => name.toLowerCase().startsWith("click"));
  entry?.[1].call(node, { type: entry[0] });
}
