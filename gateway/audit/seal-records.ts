export type SealNews =
  /** A signed checkpoint covers the first `size` lines of the trail. `root` is base64. */
  | { readonly type: 'AUDIT_SEAL'; readonly size: number; readonly root: string }
  /** Sealed lines are gone. `found`: lines up to the last one found; undefined: none. */
  | { readonly type: 'AUDIT_SEAL_GAP'; readonly size: number; readonly found: number | undefined }
  /** Records read back from the files, because they had not been handed over. */
  | { readonly type: 'AUDIT_READ_BACK'; readonly records: number }

/** @param timestamp ISO 8601 */
export function sealRecord(timestamp: string, origin: string, { type, ...facts }: SealNews): string {
  const format = type === 'AUDIT_SEAL' ? 1 : undefined
  return `${JSON.stringify({ type, timestamp, origin, ...facts, format })}\n`
}

export interface ForeignWrite {
  readonly file: string
  readonly inode: string
  /** Bytes of the file that the gateway wrote. */
  readonly at: number
  readonly found: number
  /** `behind the end`: found at a start, behind the last line of an orderly stop. */
  readonly reason: 'grown' | 'shortened' | 'changed' | 'replaced' | 'renamed' | 'behind the end'
}

export const SEAL_HEAD = '{"type":"AUDIT_SEAL",'
export const FOREIGN_HEAD = '{"type":"AUDIT_FOREIGN",'

export function foreignRecord(timestamp: string, { file, inode, at, found, reason }: ForeignWrite): string {
  return `${JSON.stringify({ type: 'AUDIT_FOREIGN', timestamp, file, inode, at, found, reason })}\n`
}
