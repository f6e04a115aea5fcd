import { isDeepStrictEqual } from 'node:util'
import type { Fault, Parsed } from '../../config/faults.ts'
import { variableOf } from '../../config/json/key-names.ts'
import { loadFile, type ReadFile, readLenient, readPrivate } from '../../config/load-file.ts'
import { DOUBTFUL_LOOKS, Reloader, type ReloadOptions } from '../../config/reload/reloader.ts'
import { LENIENT_DISK, PRIVATE_DISK } from '../../config/reload/watch.ts'
import { lapses } from '../../config/rules/certificate-times.ts'
import { parseTls, type TlsFiles, type TlsMaterial, type TlsTexts } from './tls-context.ts'

export interface LoadedTls {
  readonly texts: TlsTexts
  readonly material: TlsMaterial
}

type Part = keyof TlsTexts

const FILE_OF = {
  cert: 'certFile',
  key: 'keyFile',
  clientCa: 'clientCaFile',
  clientCrl: 'clientCrlFile',
  ticketKey: 'ticketKeyFile',
} as const satisfies Record<Part, keyof TlsFiles>
const PARTS = Object.keys(FILE_OF) as Part[]

/** Reads the files for the start. Reports all faults together. */
export function loadTls(files: TlsFiles, nowMs: number, readFile: ReadFile = readLenient): Parsed<LoadedTls> {
  const texts: { [Key in Part]?: string | undefined } = {}
  const faults: Fault[] = []
  for (const part of PARTS) {
    const file = files[FILE_OF[part]]
    if (file === undefined) continue
    const read = loadFile(file, (_, text) => ({ value: text }), {
      readFile: part === 'ticketKey' ? readPrivate : readFile,
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

function namedBy(part: Part): string {
  const key = FILE_OF[part]
  return `"tls.${key}" (${variableOf(`tls.${key}`)})`
}

export function tlsTexts(
  files: TlsFiles,
  { texts }: LoadedTls,
): (readonly [file: string | undefined, text: string | undefined])[] {
  return PARTS.map((part) => [files[FILE_OF[part]], texts[part]])
}

interface TlsReloadOptions extends Pick<ReloadOptions<TlsMaterial>, 'swap' | 'onReload' | 'intervalMs'> {
  readonly files: TlsFiles
  readonly loaded: LoadedTls
  readonly clock: () => number
}

/**
 * Puts changed files in force. If certificate and key do not fit each other, they are read again, because one file
 * changes before the other. Revocation lists wait for no other file. A file that is not valid now replaces a valid one
 * only if it is a newer revocation list.
 */
export function tlsReloader({ files, loaded, clock, ...options }: TlsReloadOptions): Reloader<TlsMaterial> {
  const watched = PARTS.flatMap((part) => {
    const [file, text] = [files[FILE_OF[part]], loaded.texts[part]]
    const disk = part === 'ticketKey' ? PRIVATE_DISK : LENIENT_DISK
    return file === undefined || text === undefined
      ? []
      : [{ part, file, text, disk, namedBy: namedBy(part) }]
  })
  const listsAt = watched.findIndex(({ part }) => part === 'clientCrl')
  const judge = (list: readonly string[], inForce: TlsMaterial): Parsed<TlsMaterial> => {
    const texts = { ...loaded.texts, ...Object.fromEntries(watched.map(({ part }, at) => [part, list[at]])) }
    const nowMs = clock()
    const parsed = parseTls(files, texts, nowMs)
    if (parsed.faults !== undefined) return parsed
    const faults = lapses(parsed.value.dated, inForce.dated, nowMs)
    return faults.length > 0 ? { faults } : parsed
  }
  return new Reloader<TlsMaterial>({
    ...options,
    files: watched,
    value: loaded.material,
    looks: DOUBTFUL_LOOKS,
    isSame: (before, after) => before === after,
    parse: (texts, inForce) =>
      isDeepStrictEqual(texts, inForce.texts) ? inForce : judge(texts, inForce.value),
    salvage: (edited, inForce) => {
      const lists = edited[listsAt]
      if (lists === undefined || lists === inForce.texts[listsAt]) return undefined
      const texts = inForce.texts.with(listsAt, lists)
      const { value } = judge(texts, inForce.value)
      return value && { texts, value }
    },
  })
}
