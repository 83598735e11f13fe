import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

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
