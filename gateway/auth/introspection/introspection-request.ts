import { constants, createPrivateKey, type KeyObject, randomUUID, sign } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { IntrospectionSettings } from '../../config/settings.ts'
import { createSender, type IncomingResponse, type Receiver } from '../../outgoing/sender.ts'
import { MAX_CALLS } from '../questions.ts'

const ASSERTION_SECONDS = 60
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/**
 * Makes a function that asks about a token (RFC 7662 section 2.1). It reads the files of credentials for each token.
 * @returns a function that throws SendFault, or an Error of node:fs or node:crypto
 */
export function introspectionRequest(
  settings: IntrospectionSettings,
  issuer: string,
): (token: string) => Promise<IncomingResponse> {
  const { url, clientId, clientSecretFile, keyFile, certFile, timeoutMs, signed } = settings
  const receiver: Receiver = { url, timeoutMs, connections: MAX_CALLS }
  let send = createSender(receiver)
  let pair: { readonly cert: string; readonly key: string } | undefined

  return async (token) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const read = (file: string) => readInTime(file, signal)
    const form = new URLSearchParams({ token, token_type_hint: 'access_token' })
    const headers: Record<string, string> = {
      'content-type': 'application/x-www-form-urlencoded',
      accept: signed ? 'application/token-introspection+jwt' : 'application/json',
    }
    if (clientSecretFile !== undefined) {
      headers.authorization = basic(clientId, (await read(clientSecretFile)).replace(/\r?\n$/, ''))
    } else if (keyFile !== undefined && certFile !== undefined) {
      const [cert, key] = [await read(certFile), await read(keyFile)]
      if (pair?.cert !== cert || pair.key !== key) send = createSender({ ...receiver, cert, key })
      pair = { cert, key }
      form.set('client_id', clientId)
    } else if (keyFile !== undefined) {
      form.set('client_id', clientId)
      form.set('client_assertion_type', ASSERTION_TYPE)
      form.set('client_assertion', assertion(await read(keyFile), { clientId, issuer }))
    }
    return send({ method: 'POST', headers, body: Buffer.from(form.toString()), signal })
  }
}

/** @throws Error when the file cannot be read, or not in time: a file system may hang */
function readInTime(file: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error(`${file} was not read in time`)))
    readFile(file, 'utf8').then(resolve, reject)
  })
}

/** Credentials as RFC 6749 section 2.3.1 encodes them. */
function basic(id: string, secret: string): string {
  const encoded = [id, secret].map((part) => new URLSearchParams({ '': part }).toString().slice(1))
  return `Basic ${Buffer.from(encoded.join(':')).toString('base64')}`
}

/** Makes a JWT for the issuer (RFC 7523 section 3). It has no `kid`, because each issuer names the keys itself. */
function assertion(
  pem: string,
  { clientId, issuer }: { readonly clientId: string; readonly issuer: string },
): string {
  const key = createPrivateKey(pem)
  const { alg, hash, options } = signingOf(key)
  const iat = Math.floor(Date.now() / 1000)
  const claims = {
    iss: clientId,
    sub: clientId,
    aud: issuer,
    jti: randomUUID(),
    iat,
    exp: iat + ASSERTION_SECONDS,
  }
  const parts = [{ alg, typ: 'JWT' }, claims].map((part) => Buffer.from(JSON.stringify(part)))
  const signed = parts.map((part) => part.toString('base64url')).join('.')
  return `${signed}.${sign(hash, Buffer.from(signed), { key, ...options }).toString('base64url')}`
}

function signingOf({ asymmetricKeyType: type, asymmetricKeyDetails }: KeyObject) {
  if (type === 'ec' && asymmetricKeyDetails?.namedCurve === 'prime256v1')
    return { alg: 'ES256', hash: 'sha256', options: { dsaEncoding: 'ieee-p1363' as const } }
  if (type === 'ed25519') return { alg: 'EdDSA', hash: null, options: {} }
  if (type !== 'rsa') throw new Error(`the key is of the kind ${type}; it must be P-256, Ed25519 or RSA`)
  const padding = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
  return { alg: 'PS256', hash: 'sha256', options: padding }
}
