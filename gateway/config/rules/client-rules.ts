import schema from '../../../config/schemas/clients.schema.json' with { type: 'json' }
import type { Fault } from '../faults.ts'
import { type Problem, type SchemaReport, schemaCheck } from '../json/schema-check.ts'
import { secretSentence, withoutValue } from './secret-rules.ts'

export const ONE_IDENTITY = 'must have exactly one of "thumbprint", "sanDns", "sanUri" and "subject"'
const SENTENCES: readonly (readonly [path: RegExp, sentence: string])[] = [
  [/^\$\.clients\[\d+\]\.hmac\.secrets\[\d+\]\.env$/, secretSentence('.env')],
  [/^\$\.clients\[\d+\]\.hmac\.secrets\[\d+\]\.file$/, secretSentence('.file')],
  [/^\$\.clients\[\d+\]\.hmac\.secrets\[\d+\]/, secretSentence('')],
  [
    /^\$\.clients\[\d+\]\.hmac\.(?:secret|whsec|value|key)$/i,
    `is not a known key; "secrets" is a list of which each ${secretSentence('')}`,
  ],
  [/^\$\.clients\[\d+\]\.mtls$/, ONE_IDENTITY],
]
const IN_HMAC = /^\$\.clients\[\d+\]\.hmac\b/
const SECRET = /whsec_[^"\s]+/giu

const checkSchema = schemaCheck(schema)

/**
 * Compares config/clients.json with its schema. A secret may have been written where its place should be named, so faults do
 * not repeat values of `hmac`.
 */
export function checkClientsSchema(value: unknown): SchemaReport {
  const report = checkSchema(value)
  return { ...report, problems: report.problems.map(inOurWords) }
}

/** The same faults without the secrets that they may repeat. */
export function withoutSecrets(faults: readonly Fault[]): readonly Fault[] {
  // Their places stay: such a file shows no lines.
  return faults.map(({ path, reason, ...rest }) => ({
    ...rest,
    path: path.replace(SECRET, 'whsec_…'),
    reason: reason.replace(SECRET, 'whsec_…'),
  }))
}

function inOurWords({ path, reason }: Problem): Problem {
  const known = SENTENCES.find(([where]) => where.test(path))
  if (known !== undefined && !isOfType(path, reason)) return { path, reason: known[1] }
  return IN_HMAC.test(path) ? { path, reason: withoutValue(reason) } : { path, reason }
}

/** When `mtls` is not an object, the schema's own sentence is better. */
function isOfType(path: string, reason: string): boolean {
  return path.endsWith('.mtls') && reason.startsWith('must be an object')
}
