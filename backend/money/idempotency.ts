import type { Database, Transaction } from '../database/database.ts'
import { invalidField, Problem } from '../problems.ts'

/** How long an answer is kept; after that its key may be used for something else. */
export const KEPT_MS = 24 * 60 * 60 * 1000

const HEADER = 'Idempotency-Key'
const MAX_CHARACTERS = 255

/** A final answer, kept as it was sent: status and body, success and refusal alike. */
export interface StoredAnswer {
  readonly status: number
  readonly body: string
}

/** One use of a key. Keys of different callers or paths never meet. */
export interface KeyedRequest {
  readonly caller: string
  readonly path: string
  readonly key: string
  /** What the request asks for; the same key with another fingerprint is refused. */
  readonly fingerprint: string
}

/** What the header may be, for schemas: a string in quotes with its escapes, or a token and a little more. */
export const KEY_PATTERN = '^("([ !#-\\[\\]-~]|\\\\["\\\\]){1,255}"|[A-Za-z0-9!#$%&\'*+.^_`|~:/=@-]{1,255})$'

/**
 * The key in an Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header): a structured-field string
 * (`"8e03978e"`), or the same without quotes, which many clients send. 1 to 255 characters. `undefined` without the
 * header; throws the 400 problem for anything else, also for two headers.
 */
export function idempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  const key = typeof header === 'string' ? readKey(header.trim()) : undefined
  if (key === undefined || key.length === 0 || key.length > MAX_CHARACTERS) {
    throw invalidField(
      HEADER,
      `must be one key of 1 to ${MAX_CHARACTERS} characters, in double quotes or plain`,
    )
  }
  return key
}

function readKey(text: string): string | undefined {
  // RFC 8941 section 3.3.3: printable ASCII in quotes, of which only quote and backslash are escaped.
  if (/^"([\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"$/.test(text))
    return text.slice(1, -1).replace(/\\(["\\])/g, '$1')
  return /^[A-Za-z0-9!#$%&'*+.^_`|~:/=@-]+$/.test(text) ? text : undefined
}

/** The keys this process is working on, `\0` between their parts because none of them can have one. */
const inFlight = new Set<string>()

/**
 * Answers the request once. `work` runs in one transaction with the row that keeps its answer, so a crash leaves
 * either both or neither, and no key stays taken by a request that died. Gives the answer and whether it is a replay.
 * Throws the problems `idempotency_key_in_flight` (409) and `idempotency_key_reused` (422).
 */
export async function answerOnce(
  database: Database,
  request: KeyedRequest,
  options: { readonly now: Date; readonly work: (transaction: Transaction) => Promise<StoredAnswer> },
): Promise<{ readonly answer: StoredAnswer; readonly replayed: boolean }> {
  const mark = [request.caller, request.path, request.key].join('\0')
  // The embedded database runs one transaction at a time: without this the second would wait, not be told.
  if (inFlight.has(mark)) throw new Problem('idempotency_key_in_flight')
  inFlight.add(mark)
  try {
    return await database.transaction(async (transaction) => {
      await refuseInFlightElsewhere(transaction, mark)
      const kept = await keptAnswer(transaction, request, options.now)
      if (kept !== undefined) return { answer: kept, replayed: true }
      const answer = await options.work(transaction)
      await keep(transaction, request, { answer, now: options.now })
      return { answer, replayed: false }
    })
  } finally {
    inFlight.delete(mark)
  }
}

/** The lock is of the transaction: the database frees it however that ends, also when this process dies. */
async function refuseInFlightElsewhere(transaction: Transaction, mark: string): Promise<void> {
  const [lock] = await transaction.query<{ taken: boolean }>(
    'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS taken',
    // A text of PostgreSQL cannot hold NUL; a hash may collide anyway, and then costs one repetition.
    [mark.replaceAll('\0', '\n')],
  )
  if (lock?.taken !== true) throw new Problem('idempotency_key_in_flight')
}

async function keptAnswer(
  transaction: Transaction,
  { caller, path, key, fingerprint }: KeyedRequest,
  now: Date,
): Promise<StoredAnswer | undefined> {
  const [kept] = await transaction.query<{ fingerprint: string; status: number; body: string }>(
    `SELECT fingerprint, status, body FROM idempotency_keys
      WHERE caller = $1 AND path = $2 AND key = $3 AND created_at > $4`,
    [caller, path, key, new Date(now.getTime() - KEPT_MS)],
  )
  if (kept === undefined) return undefined
  if (kept.fingerprint !== fingerprint) throw new Problem('idempotency_key_reused')
  return { status: kept.status, body: kept.body }
}

async function keep(
  transaction: Transaction,
  { caller, path, key, fingerprint }: KeyedRequest,
  { answer, now }: { readonly answer: StoredAnswer; readonly now: Date },
): Promise<void> {
  // Only an expired answer can be in the way: one in force was replayed above.
  await transaction.query(
    `INSERT INTO idempotency_keys (caller, path, key, fingerprint, status, body, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (caller, path, key) DO UPDATE
       SET fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body,
           created_at = excluded.created_at`,
    [caller, path, key, fingerprint, answer.status, answer.body, now],
  )
}
