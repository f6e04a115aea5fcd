import { createHmac } from 'node:crypto'
import { percentDecoded } from '../../syntax/characters.ts'
import { isTemplate, partsOf, segmentsOf, textOf } from '../path-template.ts'

const PSEUDONYM_CHARS = 16

export function pseudonym(value: string, key: string): string {
  return createHmac('sha256', key).update(value).digest('hex').slice(0, PSEUDONYM_CHARS)
}

/** Makes a function that replaces masked parameters by `{name:pseudonym}`, in paths that `template` matches. */
export function pathMask(template: string, masked: readonly string[], key: string): (path: string) => string {
  const parts = segmentsOf(template).map(partsOf)
  return (path) => {
    const segments = segmentsOf(path)
    const shown = parts.map(({ names, fixed }, at) => {
      if (!names.some((name) => masked.includes(name))) return segments[at]
      const texts = names.map((name, index) => {
        const text = textOf({ name, at, index, fixed }, segments)
        return masked.includes(name) ? `{${name}:${pseudonym(percentDecoded(text) ?? text, key)}}` : text
      })
      return fixed.map((text, index) => text + (texts[index] ?? '')).join('')
    })
    return `/${shown.join('/')}`
  }
}

/** The first segment of a path, up to its first unusual character; `/` if a template has a parameter there. */
export function firstSegment(path: string, templates: readonly string[]): string {
  if (!path.startsWith('/')) return path
  return templates.some((template) => isTemplate(segmentsOf(template)[0] ?? ''))
    ? '/'
    : (/^\/[\w.~-]*/.exec(path)?.[0] ?? '/')
}
