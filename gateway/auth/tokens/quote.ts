const MAX_CHARS = 64

/** Foreign text for a `cause` in the log: as JSON, so that it cannot look like ours, and at most 64 characters of it. */
export function quote(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, MAX_CHARS)
}
