const MAX_CHARS = 64

/** Quotes untrusted text for the log. */
export function quote(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, MAX_CHARS)
}
