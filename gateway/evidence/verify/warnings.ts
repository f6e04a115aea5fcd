import { type Place, showPlace } from './finding.ts'
import type { ReadLines } from './read-lines.ts'

const MAX = 20

/** What is to be said of lines, each by its place; the last one that was read, if none is named. */
export class Warnings {
  readonly #lines: ReadLines
  readonly #texts: string[] = []
  /** Warnings about lines that are in order where something stood before the first line. */
  readonly #doubtful: string[] = []

  constructor(lines: ReadLines) {
    this.#lines = lines
  }

  add(text: string, place?: Place): void {
    this.#push(this.#texts, text, place)
  }

  addDoubtful(text: string): void {
    this.#push(this.#doubtful, text)
  }

  /** @param isFromMiddle something stood before the first line */
  all(isFromMiddle: boolean): readonly string[] {
    return isFromMiddle ? this.#texts : [...this.#texts, ...this.#doubtful].slice(0, MAX)
  }

  #push(texts: string[], text: string, place = this.#lines.place(this.#lines.count - 1)): void {
    if (texts.length < MAX) texts.push(place === undefined ? text : `${showPlace(place)}: ${text}`)
  }
}
