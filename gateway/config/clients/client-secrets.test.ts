import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { readSecret, THIS_MACHINE } from './client-secrets.ts'
import type { SecretForm } from './webhook-schemes.ts'

const BYTES = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
const SECRET = `whsec_${BYTES.toString('base64')}`

function fromEnv(value: string | undefined, form: SecretForm = 'whsec') {
  return readSecret({ env: 'SECRET' }, form, {
    env: { SECRET: value },
    readFile: () => assert.fail('no file was asked for'),
  })
}

function fromFile(file: string) {
  return readSecret({ file }, 'whsec', THIS_MACHINE)
}

test('a secret of the environment is decoded to its bytes', () => {
  assert.deepEqual(fromEnv(SECRET).secret?.export(), BYTES)
})

test('a secret of another scheme is 16 to 256 visible characters, or the bytes that they encode', () => {
  const text = 'whsec_0123456789abcdef'
  assert.equal(fromEnv(text, 'text').secret?.export().toString(), text)
  assert.deepEqual(fromEnv(BYTES.toString('hex').toUpperCase(), 'hex').secret?.export(), BYTES)
  assert.deepEqual(fromEnv(BYTES.toString('base64'), 'base64').secret?.export(), BYTES)
  for (const value of [
    '',
    'x'.repeat(15),
    'x'.repeat(257),
    `${text} `,
    `${text}\u00e9`,
    `${text}\n${text}`,
  ]) {
    assert.ok(fromEnv(value, 'text').reason, value)
  }
  assert.match(fromEnv('not-hexadecimal!', 'hex').reason ?? '', /in hex, as "secretEncoding" says$/)
  assert.match(fromEnv('bm90IGNhbm9uaWNhbA', 'base64').reason ?? '', /in base64, as/)
})

test('a secret has 24 to 64 bytes', () => {
  for (const bytes of [24, 25, 26, 64]) {
    const random = randomBytes(bytes)
    assert.deepEqual(fromEnv(`whsec_${random.toString('base64')}`).secret?.export(), random)
  }
  for (const bytes of [1, 23, 65, 1000]) {
    const { reason } = fromEnv(`whsec_${randomBytes(bytes).toString('base64')}`)
    assert.ok(reason?.endsWith(`24 to 64 random bytes, but holds ${bytes}`), String(reason))
  }
  assert.match(fromEnv('whsec_').reason ?? '', /but holds 0$/)
})

test('a bad secret is a fault that says what a secret must be, and does not repeat it', () => {
  const base64 = BYTES.toString('base64')
  const cases: [value: string | undefined, end: string][] = [
    [undefined, 'the environment variable SECRET is not set'],
    ['', 'the environment variable SECRET is empty'],
    [base64, 'but does not begin with "whsec_"'],
    [` ${SECRET}`, 'but does not begin with "whsec_"'],
    [`WHSEC_${base64}`, 'but does not begin with "whsec_"'],
    [`whsk_${base64}`, 'but does not begin with "whsec_"'],
    [`whsec_${BYTES.toString('hex')}z`, 'but what follows is not base64'],
    [`whsec_${Buffer.alloc(32, 0xfb).toString('base64url')}`, 'but what follows is not base64'],
    [`${SECRET}\n`, 'but what follows is not base64'],
    [`${SECRET} `, 'but what follows is not base64'],
    [`${SECRET}=`, 'but what follows is not base64'],
    [`whsec_${base64.slice(0, 8)} ${base64.slice(8)}`, 'but what follows is not base64'],
    [`whsec_${randomBytes(25).toString('base64').slice(0, -1)}`, 'but what follows is not base64'],
    [`whsec_${Buffer.alloc(32).toString('base64')}`, 'but its bytes are not random'],
    [`whsec_${Buffer.from('1234567'.repeat(5)).toString('base64')}`, 'but its bytes are not random'],
  ]
  for (const [value, end] of cases) {
    const { secret, reason } = fromEnv(value)
    assert.equal(secret, undefined)
    assert.ok(reason?.endsWith(end), String(reason))
    assert.match(reason ?? '', /^the environment variable SECRET /)
    assert.ok(!reason?.includes(base64.slice(0, 8)), String(reason))
  }
})

test('random bytes are never taken for weak ones', () => {
  fc.assert(
    fc.property(fc.integer({ min: 24, max: 64 }), (bytes) => {
      assert.equal(fromEnv(`whsec_${randomBytes(bytes).toString('base64')}`).reason, undefined)
    }),
    { numRuns: 1000 },
  )
})

test('a secret in a file may have one line end after it, and the file may be a symlink', (t) => {
  const [file, link] = [join(temporaryDirectory(t), 'secret'), join(temporaryDirectory(t), 'link')]
  symlinkSync(file, link)
  for (const end of ['', '\n', '\r\n']) {
    writeFileSync(file, SECRET + end)
    assert.deepEqual(fromFile(file).secret?.export(), BYTES)
    assert.deepEqual(fromFile(link).secret?.export(), BYTES)
  }
  for (const text of [`${SECRET}\n\n`, `${SECRET}\n${SECRET}\n`, `${SECRET}\r`]) {
    writeFileSync(file, text)
    assert.match(fromFile(file).reason ?? '', /but what follows is not base64$/)
  }
})

test('a file that cannot be a secret is a fault that names it', (t) => {
  const at = temporaryDirectory(t)
  const file = join(at, 'secret')
  assert.equal(
    fromFile(file).reason,
    `the file ${JSON.stringify(file)} cannot be read: ENOENT: no such file or directory`,
  )
  writeFileSync(file, '')
  assert.equal(fromFile(file).reason, `the file ${JSON.stringify(file)} is empty`)
  truncateSync(file, 4097)
  assert.match(fromFile(file).reason ?? '', /^the file .* must hold a secret/)
  mkdirSync(join(at, 'folder'))
  assert.match(fromFile(join(at, 'folder')).reason ?? '', /cannot be read: it is not a regular file$/)
})
