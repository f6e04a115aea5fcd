export interface Place {
  readonly file: string
  readonly line: number
  /** From 0; in a compressed file, after decompression. */
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
  readonly addedLines?: number
}

export function showFinding({ what, place, text }: Finding): string {
  return place === undefined ? `${what}: ${text}` : `${what}: ${showPlace(place)}: ${text}`
}

export function showPlace({ file, line, byte }: Place): string {
  return `${file}, line ${line}, byte ${byte}`
}
