import schema from '../../../config/schemas/gateway.schema.json' with { type: 'json' }
import { isToken } from '../../edge/syntax/characters.ts'
import { type Problem, type SchemaReport, schemaCheck } from '../json/schema-check.ts'

/** Fault of a place that has not the form of `$defs/secret`. */
const SECRET_BELONGS =
  'must be {"env": "VARIABLE"} or {"file": "/path"}: a secret stands in the environment or in a file of its own, never in this one'
const FOUND = /, but is .*$/su
const HEADERS = /^\$\.tracing\.headers(?![A-Za-z])/
/** One of them, and what is below it. Names that are no identifiers are quoted. */
const HEADER = /^\$\.tracing\.headers(?:\.([A-Za-z_$][A-Za-z0-9_$-]*)|\[("(?:[^"\\]|\\.)*")\])(.*)$/s

const checkSchema = schemaCheck(schema)

/**
 * Compares config/gateway.json with its schema. A key may have been written where its place should be named, so faults do not
 * repeat what stands in `tracing.headers`.
 */
export function checkGatewaySchema(value: unknown): SchemaReport {
  const report = checkSchema(value)
  return { ...report, problems: report.problems.map(inOurWords) }
}

/** What must stand at or below the place of a secret. @param below the path from there */
export function secretSentence(below: string): string {
  if (below === '.env') return 'must be the name of an environment variable, in capitals'
  if (below === '.file') return 'must be a path that begins with "/", "./" or "../"'
  return SECRET_BELONGS
}

/** A sentence of the schema without the value that it repeats. */
export function withoutValue(reason: string): string {
  return reason.replace(FOUND, '')
}

function inOurWords({ path, reason }: Problem): Problem {
  if (!HEADERS.test(path)) return { path, reason }
  const [header, plain, quoted = '""', below = ''] = HEADER.exec(path) ?? []
  if (header === undefined) return { path, reason: withoutValue(reason) }
  return isToken(plain ?? JSON.parse(quoted))
    ? { path, reason: secretSentence(below) }
    : { path: '$.tracing.headers', reason: 'must have the names of header fields as its keys' }
}
