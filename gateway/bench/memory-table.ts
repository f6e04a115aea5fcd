import type { Filled } from './memory-fill.ts'

export interface MemoryRow extends Filled {
  readonly what: string
  readonly offered: number
  readonly bound: string
  readonly broken: boolean
}

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
