import { isUtf8 } from 'node:buffer'
import { isPlainPath } from '../canonical-path.ts'
import { withoutParameters } from './path-readings.ts'

/** How services read a path besides as it is written, one step each. */
const STEPS: readonly ((path: string) => string)[] = [
  withoutParameters,
  (path) => path.replace(/\/{2,}/g, '/'),
  (path) => path.replaceAll('\\', '/'),
  (path) => path.replace(/[?#].*$/s, ''),
  withoutDots,
]

/** Each reading takes time, and an honest path has few. */
const MAX_READINGS = 16
const MAX_LENGTH = 1024

/**
 * Every path that a service may take a written path for, decoded not at all, once or twice, with each other step taken or not, in any
 * order. They are spelled as paths of rows are.
 *
 * @param written as it stands in a request, without the query
 * @returns undefined when no reader agrees with another on where it leads: it names a host, is no text once decoded, has too many
 * readings, or is too long to look at them
 */
export function rawReadingsOf(written: string): ReadonlySet<string> | undefined {
  if (isPlainPath(written)) return new Set([written])
  if (written.length > MAX_LENGTH) return undefined
  const readings = new Set<string>()
  let begin: ReadonlySet<string> = new Set([written])
  for (let decoded = 0; decoded <= 2; decoded++) {
    // Each step adds to the set while it is walked through: it ends because no step makes a path longer.
    const now = new Set(begin)
    for (const reading of now) {
      for (const step of STEPS) now.add(step(reading))
      if (now.size > MAX_READINGS) return undefined
    }
    for (const reading of now) {
      if (NO_PATH.test(reading) || !isUtf8(Buffer.from(reading, 'latin1'))) return undefined
      readings.add(reading.replace(decoded === 0 ? WRITTEN_OTHERWISE : NOT_PLAIN, spelled))
    }
    begin = new Set([...now].map(decodedOnce))
  }
  return readings
}

/** Two slashes or a backslash at the begin stand before a host in URLs. */
const NO_PATH = /^[^/]|^[/\\]{2}|[^ -~\u0080-\u00ff]|%u[0-9a-f]{4}/i

/** What a path of a row has as an octet in capitals. Once a path was decoded, a per cent sign is one too. */
const WRITTEN_OTHERWISE = /%[0-9A-Fa-f]{2}|[^A-Za-z0-9._~!$&'()*+,=:@/%-]/g
const NOT_PLAIN = /[^A-Za-z0-9._~!$&'()*+,=:@/-]/g

function spelled(text: string): string {
  return text.length > 1
    ? text.toUpperCase()
    : `%${text.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
}

function decodedOnce(path: string): string {
  return path.replace(/%([0-9A-Fa-f]{2})/g, (_, octet: string) =>
    String.fromCharCode(Number.parseInt(octet, 16)),
  )
}

function withoutDots(path: string): string {
  const kept: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') {
      if (kept.length > 1) kept.pop()
    } else if (segment !== '.') kept.push(segment)
  }
  if (/\/\.{1,2}$/.test(path)) kept.push('')
  return kept.length === 1 ? '/' : kept.join('/')
}
