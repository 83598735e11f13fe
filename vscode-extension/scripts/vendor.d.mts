export function vendored(): string;
