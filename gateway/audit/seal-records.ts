/** Name of the log, and when a record was made, ISO 8601. */
type LogFacts = { readonly timestamp: string; readonly origin: string }
type SealFacts = LogFacts & { readonly size: number; readonly root: string }
/** `found`: lines up to the last one that was found; undefined: none was */
type SealGapFacts = LogFacts & { readonly size: number; readonly found: number | undefined }
type ReadBackFacts = LogFacts & { readonly records: number }

/** AUDIT_SEAL: the tree over the first `size` lines of the trail stands in a signed checkpoint. @param root base64 */
export function sealRecord({ timestamp, origin, size, root }: SealFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_SEAL', timestamp, origin, size, root, format: 1 })}\n`
}

/** AUDIT_SEAL_GAP: sealed lines are no longer in the trail, and sealing continues behind them. */
export function sealGapRecord({ timestamp, origin, size, found }: SealGapFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_SEAL_GAP', timestamp, origin, size, found })}\n`
}

/** AUDIT_READ_BACK: these records were sealed as the files had them; the process that wrote them was gone. */
export function readBackRecord({ timestamp, origin, records }: ReadBackFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_READ_BACK', timestamp, origin, records })}\n`
}

export interface ForeignWrite {
  readonly file: string
  readonly inode: string
  /** Bytes of it that the gateway wrote. */
  readonly at: number
  readonly found: number
  /** `behind the end`: before a start, behind the last line of an orderly stop. */
  readonly reason: 'grown' | 'shortened' | 'changed' | 'replaced' | 'renamed' | 'behind the end'
}

export const FOREIGN_HEAD = '{"type":"AUDIT_FOREIGN",'

/** AUDIT_FOREIGN: others have written to the trail, which continues in a new file. */
export function foreignRecord(timestamp: string, { file, inode, at, found, reason }: ForeignWrite): string {
  return `${JSON.stringify({ type: 'AUDIT_FOREIGN', timestamp, file, inode, at, found, reason })}\n`
}
