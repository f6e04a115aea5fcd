import { createHash } from 'node:crypto'

const PREFIX = 'pwd:'

/**
 * How a user signed in, as oidc-provider keeps it (`amr`, RFC 8176) from the sign-in to the signed-in browser. The second
 * entry names the password, so that what is stored after the password has changed is worth nothing. No token has it.
 */
export function methodsOf(passwordHash: string): string[] {
  return ['pwd', PREFIX + digest(passwordHash)]
}

/** Whether another password than `passwordHash` was proved; true as well for a user who has none. */
export function isOfOldPassword(methods: readonly string[], passwordHash: string | null): boolean {
  return passwordHash === null || !methods.includes(PREFIX + digest(passwordHash))
}

/** Enough to tell two passwords of one user apart: their hashes have salts of their own. */
function digest(passwordHash: string): string {
  return createHash('sha256').update(passwordHash).digest('base64url').slice(0, 22)
}
