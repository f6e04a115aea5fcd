import type { FastifyInstance } from 'fastify'
import { invalidField } from '../problems.ts'
import { shortened } from '../validation.ts'

/** A string of a JSON text, with the colon behind it where it names a member, or a bracket. */
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\]]/g

/**
 * Reads JSON bodies as fastify does, and refuses one in which an object has two members of one name: `JSON.parse` takes the
 * last of them, and whoever looked at the body on the way may have taken the first (RFC 8259 section 4).
 */
export function readJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, text, done) => {
    // It calls back before it returns.
    parse(request, text, (fault, body) => {
      const repeated = fault === null ? repeatedMember(text) : undefined
      if (repeated === undefined) done(fault, body)
      else done(invalidField(shortened(repeated), 'is given more than once'))
    })
  })
}

/** Finds a member that stands twice in one object of a valid JSON text; gives its name. */
function repeatedMember(text: string): string | undefined {
  const names: Set<string>[] = []
  for (const [token, string, colon] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') names.push(new Set())
    else if (string === undefined) names.pop()
    else if (colon !== undefined) {
      // Escapes may spell one name in several ways.
      const name = JSON.parse(string) as string
      if (names.at(-1)?.has(name)) return name
      names.at(-1)?.add(name)
    }
  }
  return undefined
}
