/** Buttons, checkboxes, and parts of the page that a button unfolds. */
import type { ButtonHTMLAttributes, ComponentChildren, JSX } from "preact";
import type { FromWebview } from "../messages";
import { useOpen } from "./hooks";
import { post } from "./host";
import { Icon, type IconName } from "./icons";
import { useEffect, useRef } from "preact/hooks";

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon" | "label" | "type"> {
  /** The button's text; without room for one, its tooltip and its name for screen readers. */
  label: string;
  /** Sent to the host by a click. */
  message?: FromWebview;
}

export function TextButton({ label, message, ...rest }: ButtonProps): JSX.Element {
  return <button type="button" onClick={message && (() => post(message))} {...rest}>{label}</button>;
}

export function IconButton({ icon, label, message, children, ...rest }: ButtonProps & { icon: IconName }): JSX.Element {
  return (
    <button type="button" class="symbol" aria-label={label} title={label} onClick={message && (() => post(message))} {...rest}>
      <Icon name={icon} />
      {children}
    </button>
  );
}

/** A line that unfolds what it summarizes. `id`: the part of the page whose state is kept. */
export function Folded({ id, label, children }: { id: string; label: ComponentChildren; children: ComponentChildren }): JSX.Element {
  const [open, toggle] = useOpen(id);
  return (
    <>
      <button type="button" class="fold" aria-expanded={open} onClick={toggle}>
        <Icon name="chevron" />
        {label}
      </button>
      {open && children}
    </>
  );
}

/** Text as it stands, in a box that scrolls. */
export function Verbatim({ children }: { children: ComponentChildren }): JSX.Element {
  return <pre class="io" tabIndex={0}>{children}</pre>;
}

interface BoxProps {
  label: string;
  checked: boolean;
  mixed?: boolean;
  disabled?: boolean;
  onChange: (checked: boolean) => void;
}

/** A checkbox that shows the host's state, so that page and host cannot disagree. */
export function Box({ label, checked, mixed = false, disabled = false, onChange }: BoxProps): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (field.current) field.current.indeterminate = mixed;
  }, [mixed]);
  return (
    <input
      ref={field}
      type="checkbox"
      class="box"
      aria-label={label}
      title={label}
      checked={checked}
      disabled={disabled}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}
