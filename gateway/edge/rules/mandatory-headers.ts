/**
 * The headers of every response, as a flat list, without `X-Request-ID`, which differs by exchange.
 * `X-XSS-Protection` is asked for by the contract although browsers have dropped it; over plain HTTP a browser
 * ignores HSTS (RFC 6797 section 8.1), but a TLS terminator in front passes it on.
 */
export const MANDATORY_HEADERS: readonly string[] = [
  'Strict-Transport-Security',
  'max-age=31536000; includeSubDomains',
  'X-Content-Type-Options',
  'nosniff',
  'X-Frame-Options',
  'DENY',
  'X-XSS-Protection',
  '1; mode=block',
  'Cache-Control',
  'no-store',
]

/**
 * Names, in lower case, that an upstream's response may not set: ours, those that some cache obeys before ours, and those that
 * reveal its software.
 */
export const REPLACED_HEADERS: ReadonlySet<string> = new Set([
  'strict-transport-security',
  'x-content-type-options',
  'x-frame-options',
  'x-xss-protection',
  'x-request-id',
  'cache-control',
  'cdn-cache-control',
  'edge-control',
  'surrogate-control',
  'x-accel-expires',
  'x-litespeed-cache-control',
  'server',
  'x-powered-by',
])

/** Tells whether a field is for the cache of one network alone, which obeys it before Cache-Control (RFC 9213 section 3.1). */
export function isForOneCache(lower: string): boolean {
  return lower.endsWith('-cdn-cache-control')
}
