import { isUtf8 } from 'node:buffer'
import { percentOctet } from '../../syntax/characters.ts'
import { isPlainPath, type PathLeniency, withoutDotSegments } from '../canonical-path.ts'

/** Exceptions of a route from the edge rules. Plain data; each is off unless the route says otherwise. */
export interface Leniency extends PathLeniency {
  /** True allows `_` in the names of request fields. */
  readonly underscoreNames: boolean
  readonly rawPath: boolean
  /** Request fields, in lower case. */
  readonly methodOverrides: ReadonlySet<string>
}

export function isAmbiguous(path: string): boolean {
  return path.includes('%2F') || path.includes(';')
}

/**
 * Every form in which a service may read a canonical path: encoded slashes decoded, parameters removed, or both.
 * @returns undefined when one has a dot segment: readers do not agree on where it leads
 */
export function readingsOf(path: string): readonly string[] | undefined {
  const readings = [
    withoutParameters(path),
    withSlashes(path),
    withSlashes(withoutParameters(path)),
    withoutParameters(withSlashes(path)),
  ]
  if (readings.some((reading) => DOT_SEGMENT.test(reading))) return undefined
  return [...new Set(readings.map((reading) => reading.replace(/\/{2,}/g, '/')))]
}

const DOT_SEGMENT = /\/\.{1,2}(?:\/|$)/

function withSlashes(path: string): string {
  return path.replaceAll('%2F', '/')
}

/** A segment ends before its parameters (RFC 3986 section 3.3). */
export function withoutParameters(path: string): string {
  return path.replace(/;[^/]*/g, '')
}

/** What a service may do to a path before it reads it. */
const STEPS: readonly ((path: string) => string)[] = [
  withoutParameters,
  (path) => path.replace(/\/{2,}/g, '/'),
  (path) => path.replaceAll('\\', '/'),
  (path) => path.replace(/[?#].*$/s, ''),
  withoutDotSegments,
]

/** An honest path has few readings; each takes time. */
const MAX_READINGS = 16
const MAX_LENGTH = 1024

/**
 * Every form in which a service may read a written path, spelled like the paths of rows. The service may
 * decode it up to twice, and take any of `STEPS` in any order.
 * @param written without the query
 * @returns undefined when readers do not agree on where it leads: it names a host, is no text once decoded,
 * has too many readings, or is too long
 */
export function rawReadingsOf(written: string): ReadonlySet<string> | undefined {
  if (isPlainPath(written)) return new Set([written])
  if (written.length > MAX_LENGTH) return undefined
  const readings = new Set<string>()
  let begin: ReadonlySet<string> = new Set([written])
  for (let decoded = 0; decoded <= 2; decoded++) {
    // Each step adds to this set. The walk ends because no step makes a path longer.
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

/** No slash at the start, or several (in URLs they name a host); a control character or a `%u` escape. */
const NO_PATH = /^[^/]|^[/\\]{2}|[^ -~\u0080-\u00ff]|%u[0-9a-f]{4}/i

/** Text that is percent-encoded in a row's path. In a decoded path (`NOT_PLAIN`) this includes the percent sign. */
const WRITTEN_OTHERWISE = /%[0-9A-Fa-f]{2}|[^A-Za-z0-9._~!$&'()*+,=:@/%-]/g
const NOT_PLAIN = /[^A-Za-z0-9._~!$&'()*+,=:@/-]/g

function spelled(text: string): string {
  return text.length > 1 ? text.toUpperCase() : percentOctet(text.charCodeAt(0))
}

function decodedOnce(path: string): string {
  return path.replace(/%([0-9A-Fa-f]{2})/g, (_, octet: string) =>
    String.fromCharCode(Number.parseInt(octet, 16)),
  )
}
