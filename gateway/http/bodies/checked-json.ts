import { isUtf8 } from 'node:buffer'

/** A JSON value, or why a body is none that every service reads in the same way. */
export type CheckedJson = { readonly value: unknown } | { readonly fault: string }

/** Deeper than any request; shallower than the stack of who walks through the value. */
const MAX_DEPTH = 64
const QUOTE = 34
const BACKSLASH = 92
const COLON = 58
const OPEN = new Set([91, 123])
const CLOSE = new Set([93, 125])
const OBJECT = 123

/**
 * Parses a body as JSON (RFC 8259) of at most 64 levels. A key that is written twice in one object is a fault: the service may
 * take the other value than the one that was checked.
 */
export function parseCheckedJson(body: Buffer): CheckedJson {
  if (!isUtf8(body)) return { fault: 'is not UTF-8' }
  const fault = structureFault(body)
  if (fault !== undefined) return { fault }
  try {
    return { value: JSON.parse(body.toString('utf8')) }
  } catch {
    return { fault: 'is not JSON' }
  }
}

/** One pass over the bytes; what is no JSON at all is left to the parser. */
function structureFault(body: Buffer): string | undefined {
  /** For each level its keys so far; undefined for an array. */
  const levels: (Set<string> | undefined)[] = []
  for (let at = 0; at < body.length; at++) {
    const byte = body[at] as number
    if (byte === QUOTE) {
      const end = endOfText(body, at)
      const keys = levels.at(-1)
      if (keys !== undefined && nextVisible(body, end + 1) === COLON) {
        const key = textOf(body, at, end)
        if (keys.has(key)) return 'has a member twice in one object'
        keys.add(key)
      }
      at = end
    } else if (OPEN.has(byte)) {
      if (levels.length >= MAX_DEPTH) return `is nested deeper than ${MAX_DEPTH} levels`
      levels.push(byte === OBJECT ? new Set() : undefined)
    } else if (CLOSE.has(byte)) levels.pop()
  }
  return undefined
}

/** The closing quote; the length when there is none. */
function endOfText(body: Buffer, from: number): number {
  let at = from + 1
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1
  return at
}

function nextVisible(body: Buffer, from: number): number | undefined {
  let at = from
  while (body[at] === 32 || body[at] === 9 || body[at] === 10 || body[at] === 13) at++
  return body[at]
}

function textOf(body: Buffer, from: number, to: number): string {
  const text = body.toString('utf8', from + 1, to)
  if (!text.includes('\\')) return text
  try {
    return JSON.parse(`"${text}"`)
  } catch {
    return text
  }
}
