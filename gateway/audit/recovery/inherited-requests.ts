import { openChangeOf, pairKeyOf } from '../audit-records.ts'
import type { Commit } from '../commit/commit.ts'
import type { Trail } from '../trail.ts'

/** Requests that the process before has in flight: it sends their responses as long as it lives. */
export class InheritedRequests {
  readonly #trail: Pick<Trail, 'settle'>
  /** By the key of the pair: the responses to write when that process ends without having sent its own. */
  readonly #open = new Map<string, string[]>()

  /** @param recovered an API_RESPONSE for each of them, as after a crash */
  constructor(trail: Pick<Trail, 'settle'>, recovered: readonly string[]) {
    this.#trail = trail
    for (const line of recovered) this.#listOf(line).push(line)
  }

  get count(): number {
    let count = 0
    for (const lines of this.#open.values()) count += lines.length
    return count
  }

  /**
   * Writes records of that process.
   *
   * @returns what it must wait for; undefined: nothing
   */
  settle(lines: readonly string[]): Commit | undefined {
    let last: Commit | undefined
    for (const line of lines) {
      if (openChangeOf(line) === -1) this.#close(line)
      last = this.#trail.settle(line)
    }
    return last
  }

  /** That process has ended: writes the responses that did not come. @returns how many */
  end(): number {
    const { count } = this
    for (const lines of this.#open.values()) for (const line of lines) this.#trail.settle(line)
    this.#open.clear()
    return count
  }

  #close(line: string): void {
    const lines = this.#listOf(line)
    lines.pop()
    if (lines.length === 0) this.#open.delete(pairKeyOf(line) as string)
  }

  /** Those that repeat a request id in the same millisecond are many. */
  #listOf(line: string): string[] {
    const key = pairKeyOf(line) as string
    let lines = this.#open.get(key)
    if (lines === undefined) {
      lines = []
      this.#open.set(key, lines)
    }
    return lines
  }
}
