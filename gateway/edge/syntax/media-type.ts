import { withoutSpaceAround } from './characters.ts'

/** Parameters by name; names and values in lower case. */
export type MediaParameters = ReadonlyMap<string, string>

/** `;name=value`, `;name="value"`, or `;` (RFC 9110 section 5.6.6). No backslashes: readers differ about them. */
const PARAMETER = /[ \t]*;[ \t]*(?:([!#$%&'*+\-.^_`|~0-9a-z]+)=(?:([!#$%&'*+\-.^_`|~0-9a-z]+)|"([^"\\]*)"))?/y

/** Bare types that each service reads as JSON in UTF-8. */
export const APPLICATION_JSON = /^application\/(?:[!#$%&'*+\-.^_`|~0-9a-z]+\+)?json$/

/** `application/json` for `Application/JSON; v=1`. */
export function bareMediaType(text: string): string {
  return withoutSpaceAround(text.split(';')[0] ?? '').toLowerCase()
}

/** @returns undefined when a parameter is repeated or can be read in more than one way */
export function mediaParametersOf(text: string): MediaParameters | undefined {
  const written = withoutSpaceAround(text).toLowerCase()
  const parameters = new Map<string, string>()
  PARAMETER.lastIndex = written.includes(';') ? written.indexOf(';') : written.length
  while (PARAMETER.lastIndex < written.length) {
    const match = PARAMETER.exec(written)
    if (match === null) return undefined
    const [, name, token, quoted] = match
    if (name === undefined) continue
    if (parameters.has(name)) return undefined
    parameters.set(name, token ?? quoted ?? '')
  }
  return parameters
}
