import type { Database, Transaction, TransactionOptions } from '../database/database.ts'
import { Problem } from '../problems.ts'

/** The life of a response, by the database's clock, which all backends share. */
export const KEPT_MS = 24 * 60 * 60 * 1000

export interface StoredResponse {
  readonly status: number
  readonly body: string
}

/** A key counts per caller and path. */
export interface KeyedRequest {
  readonly caller: string
  readonly path: string
  readonly key: string
  /** The request's meaning; the same key with another meaning is refused. */
  readonly fingerprint: string
}

/** A key: a structured-field string (RFC 8941 section 3.3.3), or the text without quotes, as many clients send it. */
export const KEY_PATTERN = '^("([ !#-\\[\\]-~]|\\\\["\\\\]){1,255}"|[A-Za-z0-9!#$%&\'*+.^_`|~:/=@-]{1,255})$'

/** Reads an Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header) of the form {@link KEY_PATTERN}. */
export function idempotencyKey(header: string | undefined): string | undefined {
  return header?.startsWith('"') ? header.slice(1, -1).replace(/\\(["\\])/g, '$1') : header
}

/** The keys that this process works on, with `\0` between their parts. */
const inFlight = new Set<string>()

/**
 * Does a keyed request's work once. `work` and its kept response share one transaction, so a crash leaves both or
 * neither. Throws the problems `idempotency_key_in_flight` (409) and `idempotency_key_reused` (422).
 */
export async function respondOnce(
  database: Database,
  request: KeyedRequest,
  options: TransactionOptions & {
    readonly work: (transaction: Transaction) => Promise<StoredResponse>
  },
): Promise<{ readonly response: StoredResponse; readonly replayed: boolean }> {
  const mark = [request.caller, request.path, request.key].join('\0')
  // The embedded database runs one transaction at a time, so the second request would wait instead of failing.
  if (inFlight.has(mark)) throw new Problem('idempotency_key_in_flight')
  inFlight.add(mark)
  const { caller, path, key, fingerprint } = request
  try {
    return await database.transaction(async (transaction) => {
      const [lock] = await transaction.query<{ taken: boolean }>(
        'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS taken',
        // PostgreSQL text has no NUL. A collision of hashes costs a 409, after which the client tries again.
        [mark.replaceAll('\0', '\n')],
      )
      if (lock?.taken !== true) throw new Problem('idempotency_key_in_flight')
      const [kept] = await transaction.query<{ fingerprint: string; status: number; body: string }>(
        `SELECT fingerprint, status, body FROM idempotency_keys
          WHERE caller = $1 AND path = $2 AND key = $3 AND created_at > now() - $4 * interval '1 millisecond'`,
        [caller, path, key, KEPT_MS],
      )
      if (kept !== undefined) {
        if (kept.fingerprint !== fingerprint) throw new Problem('idempotency_key_reused')
        return { response: { status: kept.status, body: kept.body }, replayed: true }
      }
      const response = await options.work(transaction)
      // This replaces only an expired response, because a response in force was replayed above.
      await transaction.query(
        `INSERT INTO idempotency_keys (caller, path, key, fingerprint, status, body, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, now())
         ON CONFLICT (caller, path, key) DO UPDATE
           SET fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body,
               created_at = excluded.created_at`,
        [caller, path, key, fingerprint, response.status, response.body],
      )
      return { response, replayed: false }
    }, options)
  } finally {
    inFlight.delete(mark)
  }
}
