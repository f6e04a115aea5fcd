import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { Problem } from '../problems.ts'

const derive = promisify(argon2) as (algorithm: 'argon2id', parameters: Argon2Parameters) => Promise<Buffer>

/** OWASP Password Storage Cheat Sheet, Argon2id: 19 MiB, two passes, one lane. */
const MEMORY_KIB = 19_456
const PASSES = 2
const LANES = 1
const SALT_BYTES = 16
const HASH_BYTES = 32

/** How many derivations may run and wait. A running one takes 19 MiB and one of four threads of Node's pool. */
const MAX_RUNNING = 2
const MAX_WAITING = 200

/** The hash to compare with when there is no user or password. */
const NOBODY = phc(Buffer.alloc(SALT_BYTES), Buffer.alloc(HASH_BYTES))

let running = 0
const waiting: (() => void)[] = []

/** Returns a PHC string, `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. Throws the `busy` problem under load. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  return phc(
    salt,
    await deriveBounded(password, { memory: MEMORY_KIB, passes: PASSES, parallelism: LANES, salt }),
  )
}

/** Compares a password with a PHC string. Returns false without a string, after the same time. */
export async function verifyPassword(password: string, stored: string | undefined): Promise<boolean> {
  const { hash, ...parameters } = parsePhc(stored ?? NOBODY)
  const derived = await deriveBounded(password, parameters)
  return timingSafeEqual(derived, hash)
}

interface Parameters {
  readonly memory: number
  readonly passes: number
  readonly parallelism: number
  readonly salt: Buffer
}

async function deriveBounded(password: string, { salt, ...cost }: Parameters): Promise<Buffer> {
  if (running === MAX_RUNNING) {
    if (waiting.length === MAX_WAITING) throw new Problem('busy')
    await new Promise<void>((go) => waiting.push(go))
  } else {
    running++
  }
  try {
    // NIST SP 800-63B section 5.1.1.2: a password must give the same bytes on every keyboard.
    const message = Buffer.from(password.normalize('NFKC'))
    return await derive('argon2id', { ...cost, message, nonce: salt, tagLength: HASH_BYTES })
  } finally {
    const next = waiting.shift()
    if (next === undefined) running--
    else next()
  }
}

function phc(salt: Buffer, hash: Buffer): string {
  return `$argon2id$v=19$m=${MEMORY_KIB},t=${PASSES},p=${LANES}$${unpadded(salt)}$${unpadded(hash)}`
}

export function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}

const PHC = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]{43})$/

function parsePhc(stored: string): Parameters & { hash: Buffer } {
  const parts = PHC.exec(stored)
  if (parts === null) throw new Error('a stored password is not an Argon2id PHC string')
  const [, memory, passes, parallelism, salt = '', hash = ''] = parts
  return {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: Buffer.from(salt, 'base64'),
    hash: Buffer.from(hash, 'base64'),
  }
}
