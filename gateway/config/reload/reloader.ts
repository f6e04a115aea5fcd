import { isDeepStrictEqual } from 'node:util'
import { messageOf } from '../../terminal/printable.ts'
import type { Fault, Parsed } from '../faults.ts'
import { type LoadedFile, type ParseFile, unreadable } from '../load-file.ts'
import { type Disk, FileWatch } from './watch.ts'

export type Reload<T> = Accepted<T> | { readonly result: 'failure'; readonly faults: readonly Fault[] }

export interface Accepted<T> {
  readonly result: 'success'
  readonly before: T
  /** Equal to `before` if only the layout of the text changed, or an invalid edit was undone. */
  readonly after: T
  readonly changed: boolean
}

interface WatchedFile {
  readonly file: string
  /** The text in force. */
  readonly text: string
  readonly disk?: Disk | undefined
  /** The key that names the file, for faults. */
  readonly namedBy?: string
}

/** Reads of certificate files before a fault is reported: the first may see half a file, the second an old one. */
export const DOUBTFUL_LOOKS = 3

/** Texts in the order of the files, and their value. */
interface ParsedTexts<T> {
  readonly texts: readonly string[]
  readonly value: T
}

/** Undefined: another file may be half written, so the texts are parsed again at the next look. */
type Outcome<T> = Parsed<T> | undefined

export interface ReloadOptions<T> {
  /** Files that are put in force together or not at all. */
  readonly files: readonly WatchedFile[]
  readonly value: T
  readonly parse: (texts: readonly string[], inForce: ParsedTexts<T>) => Outcome<T> | Promise<Outcome<T>>
  /** Finds the part of faulty texts that can be put in force. */
  readonly salvage?: (texts: readonly string[], inForce: ParsedTexts<T>) => ParsedTexts<T> | undefined
  /** Number of reads before faulty texts are reported, because they may be half written. Default: 2. */
  readonly looks?: number
  /** Default: deep equality. */
  readonly isSame?: (before: T, after: T) => boolean
  /** Puts another value in force. When it throws, the previous value stays in force. */
  readonly swap: (value: T) => void
  /** Called once for each edit, after `swap`. */
  readonly onReload: (reload: Reload<T>) => void
  readonly intervalMs?: number | undefined
}

export function oneFile<T>(
  file: string,
  { text, value }: LoadedFile<T>,
  parse: (...args: Parameters<ParseFile<T>>) => Outcome<T> | Promise<Outcome<T>>,
): Pick<ReloadOptions<T>, 'files' | 'value' | 'parse'> {
  return { files: [{ file, text }], value, parse: ([edited = '']) => parse(file, edited) }
}

/**
 * Texts that do not parse change nothing. They are parsed again from time to time, because an edit of another file may
 * mend the fault.
 */
export class Reloader<T> {
  readonly #options: ReloadOptions<T>
  readonly #watches: readonly FileWatch[]
  /** Watches of files that the value depends on. */
  readonly #dependencies = new Map<string, FileWatch>()
  /** Indices of files that cannot be read. */
  readonly #gone = new Set<number>()
  #texts: readonly string[]
  #inForce: ParsedTexts<T>
  /** Texts that did not parse, and how often they were read. */
  #doubtful: { readonly texts: readonly string[]; readonly looks: number } | undefined
  /** The last report of faults; undefined: none since the last success. */
  #failed: { readonly texts: readonly string[]; readonly faults: readonly Fault[] } | undefined
  /** True when the next result is reported even if it equals the last one. */
  #isNews = false
  #stopped = false

  constructor(options: ReloadOptions<T>) {
    const { files, value, intervalMs } = options
    this.#options = options
    this.#texts = files.map(({ text }) => text)
    this.#inForce = { texts: this.#texts, value }
    this.#watches = files.map(({ file, text, disk, namedBy }, at) => {
      const onChange = (changed: string) => this.#changed(at, changed)
      const onGone = (error: Error) => this.#lost(at, unreadable(file, error, namedBy))
      return new FileWatch(file, { intervalMs, known: text, onChange, onGone, ...(disk && { disk }) })
    })
  }

  /** Checks the files now, and parses them again if they failed; resolves after `onReload`. */
  async check(): Promise<void> {
    for (const watch of this.#dependencies.values()) await watch.check()
    await this.#checkFiles()
  }

  /** Replaces the dependencies. When one changes, the value is parsed and reported as after an edit. */
  follow(texts: ReadonlyMap<string, string | undefined>, disk?: Disk): void {
    if (this.#stopped) return
    // At most 1000 looks a second.
    const intervalMs = Math.max(250, texts.size)
    for (const [file, watch] of this.#dependencies) {
      if (texts.has(file)) continue
      watch.stop()
      this.#dependencies.delete(file)
    }
    for (const [file, text] of texts) {
      if (this.#dependencies.has(file) || this.#options.files.some((own) => own.file === file)) continue
      const known = text === undefined ? { isGone: true } : { known: text }
      const onChange = () => this.#dependencyChanged()
      const options = { ...known, ...(disk && { disk }), intervalMs, onChange, onGone: () => void onChange() }
      this.#dependencies.set(file, new FileWatch(file, options))
    }
  }

  stop(): void {
    this.#stopped = true
    for (const watch of [...this.#watches, ...this.#dependencies.values()]) watch.stop()
  }

  async #checkFiles(): Promise<void> {
    if (this.#failed !== undefined) this.#watches.at(-1)?.again()
    for (const watch of this.#watches) await watch.check()
  }

  #dependencyChanged(): Promise<void> {
    this.#doubtful = undefined
    this.#isNews = true
    this.#watches.at(-1)?.again()
    return this.#checkFiles()
  }

  #lost(at: number, fault: Fault): void {
    this.#gone.add(at)
    this.#fail([fault])
  }

  async #changed(at: number, text: string): Promise<void> {
    this.#gone.delete(at)
    const texts = this.#texts.with(at, text)
    this.#texts = texts
    if (this.#gone.size > 0) {
      const part = this.#options.salvage?.(texts, this.#inForce)
      if (part !== undefined) this.#accept(part, this.#failed?.faults)
      return
    }
    const beganMs = performance.now()
    const outcome = this.#options.parse(texts, this.#inForce)
    const parsed = outcome instanceof Promise ? await outcome : outcome
    if (this.#stopped) return
    if (parsed === undefined) this.#watches[at]?.again()
    else if (parsed.faults === undefined) this.#accept({ texts, value: parsed.value })
    else this.#doubt(at, texts, parsed.faults)
    // Only the last file is read again, because each check reads it after the others.
    if (this.#failed !== undefined) this.#watches.at(-1)?.againLater(performance.now() - beganMs)
  }

  #doubt(at: number, texts: readonly string[], faults: readonly Fault[]): void {
    const { looks: mostLooks = 2, salvage } = this.#options
    const isKnown = isDeepStrictEqual(this.#doubtful?.texts, texts)
    const looks = isKnown ? (this.#doubtful?.looks ?? 0) + 1 : 1
    this.#doubtful = { texts, looks }
    if (looks < mostLooks) {
      this.#watches[at]?.again()
      return
    }
    const part = salvage?.(texts, this.#inForce)
    if (part === undefined) this.#fail(faults)
    else this.#accept(part, faults)
  }

  /** @param others the faults of other texts */
  #accept({ texts, value: after }: ParsedTexts<T>, others: readonly Fault[] = []): void {
    const { files, isSame = isDeepStrictEqual, swap, onReload } = this.#options
    const { value: before, texts: textsBefore } = this.#inForce
    const changed = !isSame(before, after)
    this.#doubtful = undefined
    if (changed) {
      try {
        swap(after)
      } catch (error) {
        const reason = `cannot be put in force: ${messageOf(error)}`
        this.#fail([...others, { file: files[0]?.file ?? '', path: '$', reason }])
        return
      }
    }
    const isNews = this.#isNews || this.#failed !== undefined || !isDeepStrictEqual(texts, textsBefore)
    this.#inForce = { texts, value: changed ? after : before }
    this.#failed = undefined
    this.#isNews = false
    if (changed || isNews) onReload({ result: 'success', before, after, changed })
    if (others.length > 0) this.#fail(others)
  }

  #fail(faults: readonly Fault[]): void {
    const failed = { texts: this.#texts, faults }
    if (!this.#isNews && isDeepStrictEqual(this.#failed, failed)) return
    this.#isNews = false
    this.#failed = failed
    this.#options.onReload({ result: 'failure', faults })
  }
}
