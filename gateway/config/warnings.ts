import type { LimitRow } from '../limits/row.ts'
import { methodsMeet } from './method-rules.ts'
import { pathsMeet } from './path-rules.ts'
import type { Route } from './settings.ts'

/** What is allowed but can hardly be meant, in one sentence each. */
export function warningsOf(routes: readonly Route[], rows: readonly LimitRow[]): readonly string[] {
  return rows
    .filter((row) => !routes.some((route) => reaches(route, row)))
    .map((row) => `the limit "${row.name}" (${row.path}) has no effect: no route lets such a request through`)
}

function reaches(route: Route, row: LimitRow): boolean {
  return pathsMeet(route.path, row.path) && methodsMeet(route.methods, row.methods)
}
