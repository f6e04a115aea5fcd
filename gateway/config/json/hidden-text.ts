import { isToken } from '../../edge/syntax/characters.ts'

/** Secrets that people write into a file where they do not belong. The part after the look-behind is hidden. */
const SECRETS: readonly RegExp[] = [
  // A secret of webhooks; user and password of an address; a key in a query; what follows Bearer or Basic.
  /(?<=whsec_)[^"\\\s]*(?:\\.[^"\\\s]*)*/g,
  /(?<=:\/\/)[^/"\s]*(?=@)/g,
  /(?<="[^"\s:/@]{1,64}:)[^"\s:/@]+(?=@)/g,
  /(?<=[?&](?:[a-z_-]{0,64}(?:key|token|secret|password)|sig)=)[^"\\&#\s]*(?:\\.[^"\\&#\s]*)*/gi,
  /(?<="(?:authorization\s{0,8}[:=]\s{0,8})?(?:bearer|basic)\s{1,8})[^"\\]*(?:\\.[^"\\]*)*/gi,
  // The value of a key that ends like this. A key that ends in "File" does not match, so its value is shown.
  /(?<="[\w-]{0,64}(?:secret|token|password|passphrase|authorization|credentials?|api[_-]?key|access_?key|private_?key|headers)"\s{0,8}:\s{0,8}")[^"\\]*(?:\\.[^"\\]*)*/gi,
]
const HEADERS = /"headers"\s*:\s*(?=[{[])/g
/** A quoted text (its end may be missing), with its colon if it is a key; or a bracket; or a word without quotes. */
const PARTS = /"((?:[^"\\\r\n]|\\.)*)"?(\s*:)?|([{[])|([}\]])|[^\s"{}[\],:]+/y
const BETWEEN = /[\s,:]*/y

export type Spans = readonly (readonly [from: number, until: number])[]

/** Finds the values below `headers`, which may be secret in `tracing`. The text need not be JSON. */
export function headerValues(text: string): Spans {
  return Array.from(text.matchAll(HEADERS)).flatMap(({ index, 0: begin }) => [
    ...valuesFrom(text, index + begin.length),
  ])
}

function* valuesFrom(text: string, begin: number): Iterable<readonly [number, number]> {
  let depth = 0
  for (let at = begin; at < text.length; ) {
    PARTS.lastIndex = at
    const [part = '', string, colon, opened, closed] = PARTS.exec(text) ?? []
    if (opened !== undefined) depth += 1
    else if (closed !== undefined) depth -= 1
    else if (string === undefined || colon === undefined || !isToken(string)) yield [at, at + part.length]
    if (depth === 0) return
    BETWEEN.lastIndex = at + part.length
    BETWEEN.test(text)
    at = Math.max(BETWEEN.lastIndex, at + 1)
  }
}

/** A part of a text with asterisks for what may be a secret. @param offset of the part in the text of `headerValues` */
export function hidden(part: string, offset: number, spans: Spans): string {
  const stars = (found: string) => '*'.repeat(found.length)
  const shown = SECRETS.reduce((text, secret) => text.replaceAll(secret, stars), part)
  return spans
    .map(([from, until]) => [Math.max(0, from - offset), Math.min(part.length, until - offset)] as const)
    .filter(([from, until]) => from < until)
    .reduce(
      (text, [from, until]) => text.slice(0, from) + stars(text.slice(from, until)) + text.slice(until),
      shown,
    )
}
