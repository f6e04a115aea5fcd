import { createHmac } from 'node:crypto'

/** This process in CDN-Loop (RFC 8586), not guessable without its secret. */
export function loopMark(secret: Uint8Array): string {
  return `countersign; id=${createHmac('sha256', secret).update('CDN-Loop').digest('hex').slice(0, 16)}`
}
