/** The answer header that tells the gateway to refuse the access tokens of a session from now on. */
export const REVOKE_SESSION = 'x-revoke-session'
