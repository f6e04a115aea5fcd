/** What a path may have beyond the edge rules. */
export interface PathLeniency {
  /** `%2F` in a path. It is forwarded as it is, and never divides segments here. */
  readonly encodedSlashes: boolean
  /** `;` in a path (RFC 3986 section 3.3). */
  readonly pathParameters: boolean
}

/** What a route lets through beyond the edge rules. Plain data; each is off unless the route says otherwise. */
export interface Leniency extends PathLeniency {
  /** `_` in the names of request fields. */
  readonly underscoreNames: boolean
  /** The service gets the path as it was written. */
  readonly rawPath: boolean
  /** Names of request fields, in lower case, that ask for another method. */
  readonly methodOverrides: ReadonlySet<string>
}

/** Whether services may take a canonical path for another one. */
export function isAmbiguous(path: string): boolean {
  return path.includes('%2F') || path.includes(';')
}

/**
 * Every path that a service may take a canonical path for: with encoded slashes decoded, with parameters removed, or both
 * in either order. Repeated slashes are merged, as in canonical paths.
 *
 * @returns undefined when one of them has a dot segment: no reader agrees with another on where it leads
 */
export function readingsOf(path: string): readonly string[] | undefined {
  const readings = [
    withoutParameters(path),
    withSlashes(path),
    withSlashes(withoutParameters(path)),
    withoutParameters(withSlashes(path)),
  ]
  return readings.some((reading) => DOT_SEGMENT.test(reading))
    ? undefined
    : [...new Set(readings.map((reading) => reading.replace(/\/{2,}/g, '/')))]
}

const DOT_SEGMENT = /\/\.{1,2}(?:\/|$)/

function withSlashes(path: string): string {
  return path.replaceAll('%2F', '/')
}

/** RFC 3986 section 3.3: a segment ends before its parameters. */
export function withoutParameters(path: string): string {
  return path.replace(/;[^/]*/g, '')
}
