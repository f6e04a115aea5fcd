import { isUtf8 } from 'node:buffer'

/** A JSON value that every service reads alike, or why there is none. */
type CheckedJson = { readonly value: unknown } | { readonly fault: string }

/** More levels than any request has, and few enough for the stack of every recursive function. */
const MAX_DEPTH = 64
const QUOTE = 34
const BACKSLASH = 92
const COLON = 58
const BEGIN_ARRAY = 91
const END_ARRAY = 93
const BEGIN_OBJECT = 123
const END_OBJECT = 125

/** Parses JSON (RFC 8259). A repeated key of an object is a fault, because the service may take the unchecked value. */
export function parseCheckedJson(body: Buffer): CheckedJson {
  if (!isUtf8(body)) return { fault: 'is not UTF-8' }
  const text = body.toString('utf8')
  const keys = writtenKeys(text)
  if (keys === undefined) return { fault: `is nested deeper than ${MAX_DEPTH} levels` }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { fault: 'is not JSON' }
  }
  // The parser keeps one of two equal keys.
  return keysOf(value) === keys ? { value } : { fault: 'has a member twice in one object' }
}

/** Counts the keys of JSON; undefined when it is too deep. For text that is not JSON the number means nothing. */
function writtenKeys(text: string): number | undefined {
  let depth = 0
  let keys = 0
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at)
    if (character === QUOTE) at = endOfText(text, at)
    // Outside of strings a colon stands after a key only.
    else if (character === COLON) keys++
    else if (character === BEGIN_OBJECT || character === BEGIN_ARRAY) {
      depth++
      if (depth > MAX_DEPTH) return undefined
    } else if (character === END_OBJECT || character === END_ARRAY) depth--
  }
  return keys
}

/** Index of the closing quote, or the length. */
export function endOfText(text: string, from: number): number {
  let at = from
  for (;;) {
    at = text.indexOf('"', at + 1)
    if (at === -1) return text.length
    let backslashes = 0
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return at
  }
}

function keysOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let keys = 0
  if (Array.isArray(value)) {
    for (const item of value) keys += keysOf(item)
    return keys
  }
  for (const key of Object.keys(value)) keys += 1 + keysOf((value as Record<string, unknown>)[key])
  return keys
}
