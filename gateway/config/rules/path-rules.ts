import { canonicalPath, standsForItself } from '../../edge/rules/canonical-path.ts'
import { isTemplate, parametersOf, partsOf, segmentsOf } from '../../edge/rules/path-template.ts'

/** What RFC 3986 allows in a path (`pchar` and `/`), except `;` and `*`. */
const ALLOWED = /^(?:[A-Za-z0-9._~!$&'()+,=:@/-]|%[0-9A-F]{2})*$/
const FIRST_FORBIDDEN = /%[0-9A-Fa-f]{2}|[^A-Za-z0-9._~!$&'()+,=:@/-]/
/** A parameter as routers write it, `/:id`. A colon inside a segment is allowed. */
const PARAMETER = /\/(:[A-Za-z_][A-Za-z0-9_]*\??)(?=\/|$)/
const PARAMETER_FORM = '"{id}"'
const NEVER_ADMITTED = /%(?:2F|5C|3B|[01][0-9A-F]|7F)/i

/** Refuses paths that are not canonical, because no request has them. @param varying how a row writes a varying part */
export function pathFault(path: string, varying = 'a closing "/*"'): string | undefined {
  if (!path.startsWith('/')) return `must begin with "/", but is ${JSON.stringify(path)}`
  const fixed = path.endsWith('/*') ? path.slice(0, -1) : path
  if (fixed.includes('*')) return 'may hold "*" only at the end, as the whole last segment: "/api/*"'
  if (fixed.includes('//')) return 'must not hold "//": requests are compared with repeated slashes removed'
  if (/\/\.{1,2}(?:\/|$)/.test(fixed)) return 'must not hold "." or ".." as a segment'
  const parameter = PARAMETER.exec(fixed)?.[1]
  if (parameter !== undefined) {
    return `must not hold the segment "${parameter}": it would be taken as it stands; write a part that varies as ${varying}`
  }
  return characterFault(fixed)
}

export function routePathFault(path: string): string | undefined {
  if (!isTemplate(path) || !path.startsWith('/')) return pathFault(path, PARAMETER_FORM)
  const parts = segmentsOf(path).map(partsOf)
  const fixed = parts.map((part) => part.fixed)
  const odd = fixed.flat().find((text) => /[{}]/.test(text))
  if (odd !== undefined) return `must have its parameters as "{name}", but has ${JSON.stringify(odd)}`
  const close = parts.find((part) => part.fixed.slice(1, -1).includes(''))?.names
  if (close !== undefined) return `must have something between "{${close.join('}" and "{')}}"`
  if (path.endsWith('/*')) return 'must not have both "{name}" and a closing "/*"'
  const names = parametersOf(path).map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) < index)
  if (twice !== undefined) return `must not have "{${twice}}" twice`
  return pathFault(`/${fixed.map((texts) => texts.join('x')).join('/')}`, PARAMETER_FORM)
}

function characterFault(path: string): string | undefined {
  const never = NEVER_ADMITTED.exec(path)?.[0]
  if (never !== undefined) return `must not hold "${never}": requests that do are refused`
  const needless = needlessEscape(path)
  if (needless !== undefined) return needless
  if (ALLOWED.test(path)) {
    return canonicalPath(path) === path
      ? undefined
      : 'must not hold octets that are no UTF-8: requests that do are refused'
  }
  const [bad] = FIRST_FORBIDDEN.exec(path.replaceAll(/%[0-9A-F]{2}/g, '')) ?? ['%']
  if (bad === '?' || bad === '#') return `must end before "${bad}": only the path of a request is compared`
  if (bad === '{') return 'must not hold "{": write a part that varies as a closing "/*"'
  if (bad === ';' || bad === '\\') return `must not hold ${JSON.stringify(bad)}: requests that do are refused`
  if (bad.startsWith('%')) return `must write its percent-encoded octets as "%" and two hexadecimal capitals`
  return `must not hold ${JSON.stringify(bad)}: write it percent-encoded`
}

function needlessEscape(path: string): string | undefined {
  for (const [octet] of path.matchAll(/%[0-9A-Fa-f]{2}/g)) {
    const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16))
    if (character === '*')
      return 'must not hold "%2A": it is decoded before requests are compared, and a row cannot name the character "*"'
    if (standsForItself(character)) return `must hold "${character}" itself instead of "${octet}"`
  }
  return undefined
}

/** Removes letter case and a closing slash, because many upstreams ignore both. */
export function foldPath(path: string): string {
  const lower = path.toLowerCase()
  return lower.length > 1 && lower.endsWith('/') ? lower.slice(0, -1) : lower
}
