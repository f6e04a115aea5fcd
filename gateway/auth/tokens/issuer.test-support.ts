import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { CompactSign, type JWK } from 'jose'
import { RFC9068 } from '../../config/issuers/token-dialects.ts'
import { type Algorithm, type Signed, signatureCheck } from '../keys/signature.ts'

export const ISSUER = 'https://issuer.example'
export const AUDIENCE = 'https://api.example'
export const NOW_MS = 1_800_000_000_000
export const NOW_SECONDS = NOW_MS / 1000

/** The rules for tokens of our own issuer. */
export const RULES = {
  issuer: ISSUER,
  audiences: [AUDIENCE],
  tokens: RFC9068,
  clockToleranceMs: 10_000,
  own: true,
  boundOnly: false,
  scopes: undefined,
}

export interface SigningKey {
  readonly privateKey: KeyObject
  /** Its public part, as the issuer publishes it. */
  readonly jwk: JWK
}

const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
const ed = generateKeyPairSync('ed25519').privateKey
const sources: Readonly<Record<Algorithm, KeyObject>> = {
  ES256: ec,
  PS256: rsa,
  PS512: rsa,
  RS256: rsa,
  EdDSA: ed,
}

export function publicJwk(privateKey: KeyObject, members: Members = {}): JWK {
  const { kty, crv, x, y, n, e } = privateKey.export({ format: 'jwk' })
  return JSON.parse(JSON.stringify({ kty, crv, x, y, n, e, ...members })) as JWK
}

/** The one key of this process for the algorithm, published under its name: `kid` is `ES256` and so on. */
export function signingKey(alg: Algorithm, members: Members = {}): SigningKey {
  const privateKey = sources[alg]
  return { privateKey, jwk: publicJwk(privateKey, { kid: alg, alg, use: 'sig', ...members }) }
}

/** A key that nobody else in this process has. */
export function freshKey(kid: string): SigningKey {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { privateKey, jwk: publicJwk(privateKey, { kid, alg: 'ES256', use: 'sig' }) }
}

export type Members = Record<string, unknown>

/** Claims of a good user token; a member that is given as undefined is left out. */
export function goodClaims(changes: Members = {}): Members {
  return {
    iss: ISSUER,
    aud: AUDIENCE,
    sub: 'user-1',
    sid: 'session-1',
    jti: randomUUID(),
    client_id: 'session',
    scope: 'accounts:read transfers:write',
    iat: NOW_SECONDS - 60,
    exp: NOW_SECONDS + 600,
    ...changes,
  }
}

/** A token that jose signs. jose shares no code with the verifier. */
export function joseToken(
  alg: Algorithm | 'Ed25519',
  claims: Members = goodClaims(),
  kid: string = alg,
): Promise<string> {
  const payload = Buffer.from(JSON.stringify(claims))
  const key = alg === 'Ed25519' ? ed : sources[alg]
  return new CompactSign(payload).setProtectedHeader({ alg, typ: 'at+jwt', kid }).sign(key)
}

export function isSignedBy(key: KeyObject, alg: Algorithm, jws: string): boolean {
  return signatureCheck(key, alg)(partsOf(jws))
}

function partsOf(jws: string): Signed {
  const dot = jws.lastIndexOf('.')
  return { signed: jws.slice(0, dot), signature: Buffer.from(jws.slice(dot + 1), 'base64url') }
}

interface RawToken {
  /** Replaces members of a good header; undefined leaves one out. */
  readonly header?: Members
  readonly claims?: Members
  /** Rewrites an encoded part, for spellings that no JSON gives. */
  readonly respell?: (part: 'header' | 'payload', encoded: string) => string
  readonly key?: KeyObject
}

/** An ES256 token with a right signature over its text, whatever the text is. */
export function es256Token({ header = {}, claims = goodClaims(), respell, key = ec }: RawToken = {}): string {
  const spell = respell ?? ((_part, encoded) => encoded)
  const members = { alg: 'ES256', typ: 'at+jwt', kid: 'ES256', ...header }
  return signText(
    `${spell('header', encode(JSON.stringify(members)))}.${spell('payload', encode(JSON.stringify(claims)))}`,
    key,
  )
}

export function signText(text: string, key: KeyObject = ec): string {
  const signature = sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
  return `${text}.${signature.toString('base64url')}`
}

export function encode(text: string | Buffer): string {
  return Buffer.from(text).toString('base64url')
}

export interface TestServer {
  readonly uri: string
  /** Requests so far. */
  readonly requests: () => number
  answer: RequestListener
}

/** A real HTTP server on a free port; gone when the test ends. What it answers can be changed at any time. */
export async function serve(t: TestContext, answer: RequestListener): Promise<TestServer> {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    state.answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const state: TestServer = { uri: `http://127.0.0.1:${port}/jwks.json`, requests: () => requests, answer }
  return state
}

export function answerJson(document: unknown): RequestListener {
  return (_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(document))
  }
}
