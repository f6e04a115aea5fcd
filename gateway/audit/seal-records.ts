/** AUDIT_SEAL: the tree over the first `size` lines of the trail stands in a signed checkpoint. */
interface SealFacts {
  readonly timestamp: string
  /** Name of the log. */
  readonly origin: string
  readonly size: number
  /** Base64. */
  readonly root: string
}

/** AUDIT_SEAL_GAP: lines that were sealed are no longer in the trail, and sealing goes on behind them. */
interface SealGapFacts {
  readonly timestamp: string
  readonly origin: string
  /** Leaves of the tree. */
  readonly size: number
  /** Lines of the tree up to the last one that was found; undefined: none was. */
  readonly found: number | undefined
}

/** Version of the format of seals, last in AUDIT_SEAL. */
const SEAL_FORMAT = 1

export function sealRecord({ timestamp, origin, size, root }: SealFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_SEAL', timestamp, origin, size, root, format: SEAL_FORMAT })}\n`
}

export function sealGapRecord({ timestamp, origin, size, found }: SealGapFacts): string {
  return `${JSON.stringify({ type: 'AUDIT_SEAL_GAP', timestamp, origin, size, found })}\n`
}
