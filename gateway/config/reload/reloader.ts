import { isDeepStrictEqual } from 'node:util'
import type { Fault, Parsed } from '../faults.ts'
import { type ParseFile, unreadable } from '../load-file.ts'
import { FileWatch } from './watch.ts'

/**
 * Parses a text asynchronously. Never rejects. Undefined: something else that it read may be half written, so the text is to be
 * parsed again at the next look.
 */
type ParseApart<T> = (file: string, text: string) => Promise<Parsed<T> | undefined>

/** The result of one edit. */
export type Reload<T> = Accepted<T> | { readonly result: 'failure'; readonly faults: readonly Fault[] }

export interface Accepted<T> {
  readonly result: 'success'
  /** In force until now. */
  readonly before: T
  /** In force from now on. Equal to `before` when only the spelling changed, or an invalid edit was undone. */
  readonly after: T
  readonly changed: boolean
}

export interface ReloadOptions<T> {
  /** As the operator named it. */
  readonly file: string
  /** The text in force. */
  readonly text: string
  /** The value parsed from it. */
  readonly value: T
  readonly parse: ParseFile<T> | ParseApart<T>
  /** Default: deep equality. */
  readonly isSame?: (before: T, after: T) => boolean
  /** Puts another value in force. When it throws, the previous value stays in force. */
  readonly swap: (value: T) => void
  /** Called once for each edit, after `swap`. */
  readonly onReload: (reload: Reload<T>) => void
  readonly intervalMs?: number
}

/**
 * Reloads a file while the gateway serves. A file that does not parse changes nothing: the last good value stays in force.
 * It is read twice before it is reported as faulty, because it may be half written. After that it is parsed again by and by,
 * because what is wrong may be mended elsewhere: in a file that it names, or in another that must fit it.
 */
export class Reloader<T> {
  readonly #options: ReloadOptions<T>
  readonly #watch: FileWatch
  #value: T
  /** A text that did not parse, until it is read again. */
  #doubtful: string | undefined
  /** What was reported as faulty last; undefined: nothing since the last success. */
  #failed: { readonly text: string | undefined; readonly faults: readonly Fault[] } | undefined
  #stopped = false

  constructor(options: ReloadOptions<T>) {
    const { file, text, value, intervalMs } = options
    this.#options = options
    this.#value = value
    this.#watch = new FileWatch(file, {
      intervalMs,
      known: text,
      onChange: (changed) => this.#changed(changed),
      onGone: (error) => this.#fail(undefined, [unreadable(file, error)]),
    })
  }

  /** Checks the file now, and parses it again if it failed; resolves after `onReload`. */
  check(): Promise<void> {
    if (this.#failed !== undefined) this.#watch.again()
    return this.#watch.check()
  }

  /** Another file that the value depends on has changed: at the next look this one is parsed and reported as if it were edited. */
  dependencyChanged(): void {
    this.#doubtful = undefined
    this.#failed = undefined
    this.#watch.again()
  }

  stop(): void {
    this.#stopped = true
    this.#watch.stop()
  }

  async #changed(text: string): Promise<void> {
    const beganMs = performance.now()
    const parsed = await this.#options.parse(this.#options.file, text)
    if (this.#stopped) return
    if (parsed === undefined) {
      this.#watch.again()
    } else if (parsed.faults === undefined) {
      this.#doubtful = undefined
      this.#accept(text, parsed.value)
    } else if (this.#doubtful === text) {
      this.#fail(text, parsed.faults)
    } else {
      this.#doubtful = text
      this.#watch.again()
    }
    if (this.#failed !== undefined) this.#watch.againLater(performance.now() - beganMs)
  }

  #accept(text: string, after: T): void {
    const { file, isSame = isDeepStrictEqual, swap, onReload } = this.#options
    const before = this.#value
    const changed = !isSame(before, after)
    if (changed) {
      try {
        swap(after)
      } catch (error) {
        const reason = `cannot be put in force: ${error instanceof Error ? error.message : String(error)}`
        this.#fail(text, [{ file, path: '$', reason }])
        return
      }
      this.#value = after
    }
    this.#failed = undefined
    onReload({ result: 'success', before, after, changed })
  }

  #fail(text: string | undefined, faults: readonly Fault[]): void {
    const failed = { text, faults }
    if (isDeepStrictEqual(this.#failed, failed)) return
    this.#failed = failed
    this.#options.onReload({ result: 'failure', faults })
  }
}
