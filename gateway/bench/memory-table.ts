import type { Filled } from './memory-fill.ts'

/** How many entries one memory was offered and holds, and their cost. */
export interface MemoryRow extends Filled {
  readonly what: string
  readonly offered: number
  /** Where in the code the bound is. */
  readonly bound: string
  /** True when a bound or a budget is broken. */
  readonly broken: boolean
}

/** A table in Markdown. */
export function renderMemory(rows: readonly MemoryRow[]): string {
  const head = [
    '| what | offered | held | heap each | heap in all | resident in all | bounded by |',
    '| --- | --- | --- | --- | --- | --- | --- |',
  ]
  return [...head, ...rows.map(lineOf)].join('\n')
}

function lineOf({ what, offered, held, heapBytes, residentBytes, bound, broken }: MemoryRow): string {
  const cells = [
    what,
    inWords(offered),
    inWords(held),
    `${inWords(Math.round(heapBytes / held))} B`,
    megabytes(heapBytes),
    megabytes(residentBytes),
    broken ? `**BROKEN**: ${bound}` : bound,
  ]
  return `| ${cells.join(' | ')} |`
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`
}

function inWords(count: number): string {
  return count.toLocaleString('en-US')
}
