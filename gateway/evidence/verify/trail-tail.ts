import { plural } from './finding.ts'

interface TrailTail {
  /** Leaves of the checkpoint. */
  readonly size: number
  /** Leaf of the first line. */
  readonly firstLeaf: number
  readonly lines: number
  /** From the first on. */
  readonly provenLines: number
  readonly isPart: boolean
  /** Bytes of a last line that is not whole. */
  readonly tornBytes: number
  /** The last AUDIT_SEAL whose root is right: the leaves that it names, and its own line. */
  readonly lastSeal: { readonly size: number; readonly line: number } | undefined
}

/** Says what the end of a trail is: sealed, unsealed, or cut. */
export function tailOf(tail: TrailTail): string {
  const { size, lines, provenLines, tornBytes, lastSeal } = tail
  const rest = tail.firstLeaf + lines - size
  if (tail.isPart) return `${plural(-rest, 'sealed line')} behind these were not given, and are not judged`
  const torn = tornBytes > 0 ? `, and ${plural(tornBytes, 'byte')} of a line that is not whole` : ''
  if (rest < 0 || provenLines < lines - rest) {
    return rest < 0 ? `cut: ${plural(-rest, 'sealed line')} are missing` : 'not judged'
  }
  if (rest === 0)
    return `sealed to the last line; its AUDIT_SEAL is missing: a crash, or a cut behind the checkpoint${torn}`
  const isLast = lastSeal?.line === lines - 1 && lastSeal.size === size
  if (rest === 1 && isLast && torn === '') return 'sealed to the end'
  return `unsealed: ${plural(rest, 'line')} behind the checkpoint${torn}, as a gateway that runs or crashed leaves them`
}
