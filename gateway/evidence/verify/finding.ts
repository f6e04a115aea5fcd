/** A line in the files of a trail. */
export interface Place {
  readonly file: string
  readonly line: number
  /** Where it begins, from 0; in a compressed file, after decompression. */
  readonly byte: number
}

export interface Finding {
  readonly what:
    | 'changed'
    | 'removed'
    | 'added'
    | 'reordered'
    | 'unsealed'
    | 'truncated'
    | 'tile'
    | 'checkpoint'
    | 'rolled back'
    | 'unreadable'
  /** Undefined for files of the log. */
  readonly place?: Place | undefined
  readonly text: string
  readonly lines?: number
}

export function showFinding({ what, place, text }: Finding): string {
  return place === undefined ? `${what}: ${text}` : `${what}: ${showPlace(place)}: ${text}`
}

export function showPlace({ file, line, byte }: Place): string {
  return `${file}, line ${line}, byte ${byte}`
}

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
}

/** @param named size that an AUDIT_SEAL names, larger than the checkpoint */
export function rolledBack(named: number, size: number, place: Place | undefined): Finding {
  const there = `the one that is there is over ${size.toLocaleString('en')}`
  return {
    what: 'rolled back',
    place,
    text: `this AUDIT_SEAL names a checkpoint over ${plural(named, 'line')}, and ${there}`,
  }
}
