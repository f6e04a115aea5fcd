import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { callerOf } from '../caller.ts'
import { originOf } from '../identity/attempt-origin.ts'
import { provePassword } from '../identity/sign-in.ts'
import { Problem } from '../problems.ts'
import type { Services } from '../services.ts'

export const CurrentPassword = Type.String({
  minLength: 1,
  maxLength: 1024,
  description:
    'The present password, for a change of your own password or e-mail address, or to delete yourself.',
  examples: ['demo-password'],
})

/**
 * Guards a change of the user `id`, for which a stolen token must not suffice. Returns the hash of the present password;
 * `undefined` when the caller changes another user. Throws 403 for a missing or wrong password, 429 after too many wrong ones.
 */
export async function requirePresentPassword(
  { database, clock }: Services,
  request: FastifyRequest,
  id: string,
  password: string | undefined,
): Promise<string | undefined> {
  if (callerOf(request).subject !== id) return undefined
  // The status is not 400, because another caller needs no password.
  if (password === undefined) {
    const errors = [{ field: 'currentPassword', reason: 'is required for this change' }]
    throw new Problem('password_required', { errors })
  }
  const proof = await provePassword(database, { userId: id, password, origin: originOf(request) }, clock())
  if (proof.outcome === 'throttled') throw tooManyAttempts(proof.retryAfterSeconds)
  if (proof.outcome === 'wrong') throw new Problem('wrong_password')
  return proof.user.passwordHash
}

export function tooManyAttempts(retryAfterSeconds: number): Problem {
  return new Problem('too_many_attempts', { headers: { 'retry-after': String(retryAfterSeconds) } })
}
