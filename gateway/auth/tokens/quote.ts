const MAX_CHARS = 64

/** Untrusted text for a `cause` in the log: quoted as JSON, at most 64 characters. */
export function quote(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, MAX_CHARS)
}
