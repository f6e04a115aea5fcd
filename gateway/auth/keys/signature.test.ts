import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JWK } from 'jose'
import { isSignedBy, joseToken, signingKey } from '../tokens/issuer.test-support.ts'
import type { Algorithm } from './signature.ts'
import { readKey } from './verification-key.ts'

interface Vector {
  readonly name: string
  readonly alg: Algorithm
  readonly jwk: JWK
  readonly jws: string
}

const RFC7515_PAYLOAD =
  'eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ'

const vectors: readonly Vector[] = [
  {
    name: 'RFC 7515 appendix A.2 (RS256)',
    alg: 'RS256',
    jwk: {
      kty: 'RSA',
      n: 'ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ',
      e: 'AQAB',
    },
    jws: `eyJhbGciOiJSUzI1NiJ9.${RFC7515_PAYLOAD}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw`,
  },
  {
    name: 'RFC 7515 appendix A.3 (ES256)',
    alg: 'ES256',
    jwk: {
      kty: 'EC',
      crv: 'P-256',
      x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
      y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
    },
    jws: `eyJhbGciOiJFUzI1NiJ9.${RFC7515_PAYLOAD}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q`,
  },
  {
    name: 'RFC 8037 appendix A.4 (EdDSA)',
    alg: 'EdDSA',
    jwk: { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' },
    jws: 'eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg',
  },
]

for (const { name, alg, jwk, jws } of vectors) {
  const { key } = readKey({ kid: 'vector', ...jwk }).key!

  test(`the signature of ${name} is good`, () => {
    assert.equal(isSignedBy(key, alg, jws), true)
  })

  test(`the signature of ${name} is bad over any other payload and after any other header`, () => {
    const [header, payload, signature] = jws.split('.')
    const other = Buffer.from('{"iss":"eve"}').toString('base64url')
    const spaced = Buffer.from(`{"alg":"${alg}" }`).toString('base64url')
    assert.equal(isSignedBy(key, alg, `${header}.${other}.${signature}`), false)
    assert.equal(isSignedBy(key, alg, `${spaced}.${payload}.${signature}`), false)
  })
}

test('what a signed token says of time does not matter to its signature', async () => {
  const { key } = readKey(signingKey('ES256').jwk).key!
  assert.equal(isSignedBy(key, 'ES256', await joseToken('ES256', { exp: 1 })), true)
  assert.equal(isSignedBy(key, 'ES256', await joseToken('ES256', { nbf: 32_503_680_000 })), true)
})

test('a good signature of another algorithm than the one asked for is bad', async () => {
  const { key } = readKey(signingKey('RS256', { alg: undefined }).jwk).key!
  assert.equal(isSignedBy(key, 'RS256', await joseToken('RS256')), true)
  assert.equal(isSignedBy(key, 'PS256', await joseToken('RS256')), false)
  assert.equal(isSignedBy(key, 'EdDSA', await joseToken('RS256')), false)
})

test('a signature by RSA is as long as the modulus: without its first zero it is bad', () => {
  const n =
    'zKCtHCcmwv6lzxPH2Izb5gwq2thicR68NwR9Bpk-qC5iyHq8aeHlM6O_5oZw21tVHeLLQJWG-L7VRDJN9187TzD_nYSgVW_XceapaEPqXASl_Nrrn3X-2YS7i7fIGehCG0Dvq5EevTsUYUXvJ5P3bUF2iIYf0WUSL9uGQyAormRqQGXTlRF09RhI_eNsOVAuzlvHKwyv1pgJmQ7OKHoHMXtGKrgz88qe8qDqO8oIL6gXVA6e_G3qZCxr_wQg_uIHpqtoBOKGFh8w2abaCLeqx4F74PH5bC4zLLh_LkEx8J4ge2-mfDglV8-u-GsxqOydOYadAF14wR2Mf9B6t4ywmw'
  const value =
    'AG1PVk7otp4RX_yeOgx_zxdKj9d204sH4WKdBfdnS4nbB2QeNFfisAzJWaBSBT_WEyfaSpnpKvBUzVjZi6g3reGu8vht5qP8T7jJ0EDuT40TE-LpHG8EJhqhfeQ8qdu_QfgqfiAcFHAf4heYLdp-jWBRkj9snyLDz89a3R6U8AxcluIKRTlLqVG3c37bF6-88Y6vWENWo4_IYWUolGDwJK1RDkGS4RCVHIfFt7wANZKFtjUoSMvW6YxDw6UucnVQ6iKW7aFFwrmDPCW9J8rfJ7pFoaSoO65OeV6ID-Qh3jRDShpuEXQlNRBRwixURbgpoziGySBWjRqICtqWZ6KDyA'
  const { key } = readKey({ kid: 'vector', kty: 'RSA', n, e: 'AQAB' }).key!
  const bytes = Buffer.from(value, 'base64url')
  const isGood = (signature: Buffer) =>
    isSignedBy(key, 'PS256', `eyJhbGciOiJQUzI1NiJ9.eyJpc3MiOiJiYW5rIn0.${signature.toString('base64url')}`)
  assert.deepEqual([bytes, bytes.subarray(1), Buffer.concat([Buffer.alloc(1), bytes])].map(isGood), [
    true,
    false,
    false,
  ])
})
