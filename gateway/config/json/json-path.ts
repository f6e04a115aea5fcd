import { pointerSteps } from '../../edge/syntax/json-pointer.ts'

const PLAIN_KEY = /^[A-Za-z_$][A-Za-z0-9_$-]*$/
const LAST_STEP = /(?:\.[^.[\]]+|\[[^[\]]*\])$/

/** The path of a key or an index in `parent`: `$.limits`, `$.limits[2]`, `$["odd key"]`. */
export function childPath(parent: string, step: string | number): string {
  return PLAIN_KEY.test(String(step)) ? `${parent}.${step}` : `${parent}[${JSON.stringify(step)}]`
}

/** The path that contains this one; undefined for the root. */
export function parentPath(path: string): string | undefined {
  const parent = path.replace(LAST_STEP, '')
  return parent === path ? undefined : parent
}

/** The JSON path of a JSON pointer (RFC 6901): `/limits/2/window` is `$.limits[2].window`. */
export function pathOfPointer(pointer: string): string {
  let path = '$'
  for (const step of pointerSteps(pointer)) path = childPath(path, /^\d+$/.test(step) ? Number(step) : step)
  return path
}

/** A replacer for JSON.stringify, which makes the order of members irrelevant. */
export function sortedKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
}
