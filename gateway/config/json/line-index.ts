import type { FaultPlace } from '../faults.ts'

export class LineIndex {
  readonly #text: string
  readonly #starts: number[] = [0]

  constructor(text: string) {
    this.#text = text
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) this.#starts.push(end + 1)
  }

  placeOf(offset: number): FaultPlace {
    let low = 0
    let high = this.#starts.length - 1
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((this.#starts[middle] as number) <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - (this.#starts[low] as number) + 1 }
  }

  /** The text of a line, from 1, without its end. */
  lineAt(line: number): string {
    const start = this.#starts[line - 1] ?? this.#text.length
    return this.#text.slice(start, this.#starts[line]).replace(/\r?\n$/, '')
  }
}
