import { isDeepStrictEqual } from 'node:util'
import type { Fault, Parsed } from '../../config/faults.ts'
import { variableOf } from '../../config/json/key-names.ts'
import { loadFile, type ReadFile, readLenient, readPrivate, unreadable } from '../../config/load-file.ts'
import type { Reload } from '../../config/reload/reloader.ts'
import { type Disk, FileWatch, LENIENT_DISK, PRIVATE_DISK } from '../../config/reload/watch.ts'
import { lapses } from '../../config/rules/certificate-times.ts'
import { parseTls, type TlsFiles, type TlsMaterial, type TlsTexts } from './tls-context.ts'

/** The texts of the files, and the material made from them. */
export interface LoadedTls {
  readonly texts: TlsTexts
  readonly material: TlsMaterial
}

interface TlsReloadOptions {
  readonly files: TlsFiles
  readonly loaded: LoadedTls
  /** Wall time in milliseconds. */
  readonly clock: () => number
  /** Puts new material in force. When it throws, the old material is assumed to stay in force. */
  readonly swap: (material: TlsMaterial, texts: TlsTexts) => void
  /** Called once for each edit, after `swap`. */
  readonly onReload: (reload: Reload<TlsMaterial>) => void
  readonly intervalMs?: number
}

type Part = keyof TlsTexts

const FILE_OF = {
  cert: 'certFile',
  key: 'keyFile',
  clientCa: 'clientCaFile',
  clientCrl: 'clientCrlFile',
  ticketKey: 'ticketKeyFile',
} as const satisfies Record<Part, keyof TlsFiles>
const DISK_OF: Partial<Record<Part, Disk>> = { ticketKey: PRIVATE_DISK }
const PARTS = Object.keys(FILE_OF) as Part[]

/**
 * How often faulty texts are read before they are reported. At the first look a file may be half written; at the second,
 * the other files, each watched on its own, may not have been read yet.
 */
const DOUBTFUL_LOOKS = 3

/** Reads the files synchronously, for the start. Reports all faults together. */
export function loadTls(files: TlsFiles, nowMs: number, readFile: ReadFile = readLenient): Parsed<LoadedTls> {
  const texts: { [Key in Part]?: string | undefined } = {}
  const faults: Fault[] = []
  for (const part of PARTS) {
    const file = files[FILE_OF[part]]
    if (file === undefined) continue
    const readPart = part === 'ticketKey' ? readPrivate : readFile
    const read = loadFile(file, (_, text) => ({ value: text }), {
      readFile: readPart,
      namedBy: namedBy(part),
    })
    texts[part] = read.value?.text
    faults.push(...(read.faults ?? []))
  }
  const { cert, key, clientCa, clientCrl, ticketKey } = texts
  if (faults.length > 0 || cert === undefined || key === undefined) return { faults }
  const whole = { cert, key, clientCa, clientCrl, ticketKey }
  const { value, faults: found } = parseTls(files, whole, nowMs)
  return found === undefined ? { value: { texts: whole, material: value } } : { faults: found }
}

/** For the fault of a file that cannot be read. */
function namedBy(part: Part): string {
  const key = FILE_OF[part]
  return `"tls.${key}" (${variableOf(`tls.${key}`)})`
}

/** Each file that was loaded, and what was in it. */
export function tlsTexts(
  files: TlsFiles,
  { texts }: LoadedTls,
): (readonly [file: string | undefined, text: string | undefined])[] {
  return PARTS.map((part) => [files[FILE_OF[part]], texts[part]])
}

/**
 * Puts changed certificates, keys, authorities and lists in force without dropping connections. All files are taken
 * together or not at all: certificate and key change one after the other, so a pair that does not fit is read again
 * before it is reported. Until all files are sound, the last good ones stay in force, but for revocation lists, which wait for no
 * other file; what is valid is not replaced by what has expired or is still to come. What failed is tried again by and by:
 * a certificate may not be valid yet, or the clients may not fit the authorities.
 */
export class TlsReloader {
  readonly #options: TlsReloadOptions
  readonly #watches = new Map<Part, FileWatch>()
  readonly #gone = new Set<Part>()
  #texts: TlsTexts
  #inForce: LoadedTls
  /** Texts that did not parse, and how often they were read. */
  #doubtful: { readonly texts: TlsTexts; readonly looks: number } | undefined
  /** What was reported as faulty last; undefined: nothing since the last success. */
  #failed: { readonly texts: TlsTexts; readonly faults: readonly Fault[] } | undefined

  constructor(options: TlsReloadOptions) {
    const { files, loaded, intervalMs } = options
    this.#options = options
    this.#texts = loaded.texts
    this.#inForce = loaded
    for (const part of PARTS) {
      const file = files[FILE_OF[part]]
      const known = loaded.texts[part]
      if (file === undefined || known === undefined) continue
      const onChange = (text: string) => this.#changed(part, text)
      const onGone = (error: Error) => this.#lost(part, unreadable(file, error, namedBy(part)))
      this.#watches.set(
        part,
        new FileWatch(file, { intervalMs, known, onChange, onGone, disk: DISK_OF[part] ?? LENIENT_DISK }),
      )
    }
  }

  /** Reads every file now, and tries again what failed; resolves when the results have been reported. */
  async check(): Promise<void> {
    if (this.#failed !== undefined) this.#lastWatch()?.again()
    for (const watch of this.#watches.values()) await watch.check()
  }

  stop(): void {
    for (const watch of this.#watches.values()) watch.stop()
  }

  /** What failed is tried again when this one reports: an edit of another file is known by then. */
  #lastWatch(): FileWatch | undefined {
    return [...this.#watches.values()].at(-1)
  }

  #lost(part: Part, fault: Fault): void {
    this.#gone.add(part)
    this.#fail([fault])
  }

  #changed(part: Part, text: string): void {
    this.#gone.delete(part)
    this.#texts = { ...this.#texts, [part]: text }
    // Already reported; this runs again when the missing file is back.
    if (this.#gone.size > 0) {
      const lists = this.#listsAlone()
      if (lists !== undefined) this.#accept(lists, this.#failed?.faults)
      return
    }
    const texts = this.#texts
    const beganMs = performance.now()
    if (isDeepStrictEqual(texts, this.#inForce.texts)) this.#accept(this.#inForce)
    else this.#take(part, texts)
    if (this.#failed !== undefined) this.#lastWatch()?.againLater(performance.now() - beganMs)
  }

  #take(part: Part, texts: TlsTexts): void {
    const { value: material, faults } = this.#judge(texts)
    if (faults === undefined) {
      this.#accept({ texts, material })
      return
    }
    const before = isDeepStrictEqual(this.#doubtful?.texts, texts) ? this.#doubtful?.looks : undefined
    const looks = (before ?? 0) + 1
    this.#doubtful = { texts, looks }
    if (looks < DOUBTFUL_LOOKS) {
      this.#watches.get(part)?.again()
      return
    }
    const lists = this.#listsAlone()
    if (lists === undefined) this.#fail(faults)
    else this.#accept(lists, faults)
  }

  #judge(texts: TlsTexts): Parsed<TlsMaterial> {
    const { files, clock } = this.#options
    const nowMs = clock()
    const parsed = parseTls(files, texts, nowMs)
    if (parsed.faults !== undefined) return parsed
    const faults = lapses(parsed.value.dated, this.#inForce.material.dated, nowMs)
    return faults.length > 0 ? { faults } : parsed
  }

  /** Changed revocation lists with all else as it is in force; undefined: there are none, or they do not fit. */
  #listsAlone(): LoadedTls | undefined {
    const { clientCrl } = this.#texts
    if (clientCrl === this.#inForce.texts.clientCrl) return undefined
    const texts = { ...this.#inForce.texts, clientCrl }
    const { value: material } = this.#judge(texts)
    return material && { texts, material }
  }

  /** @param others what is wrong with files that are not part of it */
  #accept(loaded: LoadedTls, others: readonly Fault[] = []): void {
    const { files, swap, onReload } = this.#options
    const before = this.#inForce.material
    const { material: after } = loaded
    const changed = after !== before
    if (changed) {
      try {
        swap(after, loaded.texts)
      } catch (error) {
        const reason = `cannot be put in force: ${error instanceof Error ? error.message : String(error)}`
        this.#fail([...others, { file: files.certFile, path: '$', reason }])
        return
      }
    }
    const undone = this.#failed !== undefined
    this.#inForce = loaded
    this.#doubtful = undefined
    this.#failed = undefined
    if (changed || undone) onReload({ result: 'success', before, after, changed })
    if (others.length > 0) this.#fail(others)
  }

  #fail(faults: readonly Fault[]): void {
    const failed = { texts: this.#texts, faults }
    if (isDeepStrictEqual(this.#failed, failed)) return
    this.#failed = failed
    this.#options.onReload({ result: 'failure', faults })
  }
}
