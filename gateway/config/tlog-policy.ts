import { hash } from 'node:crypto'
import { describeValue } from './json/schema-check.ts'

/** At least `least` of `members` must have signed. Plain data. */
export interface Quorum {
  readonly least: number
  /** Verifier keys as C2SP signed-note writes them, or groups. */
  readonly members: readonly (Quorum | string)[]
}

/** A C2SP tlog-policy: whose signatures a checkpoint must have. */
export interface TlogPolicy {
  /** Verifier keys; the signature of one log is enough. */
  readonly logs: readonly string[]
  readonly witnesses: readonly {
    readonly name: string
    readonly key: string
    readonly url: string | undefined
  }[]
  readonly quorum: Quorum
}

/** A fault in a policy, with the number of its line. */
export class PolicyFault extends Error {}

const NOBODY: Quorum = { least: 0, members: [] }
const KEY = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/
/** Bytes of a key by its signature type (C2SP signed-note, tlog-cosignature). */
const LOG_KEYS: ReadonlyMap<number, number> = new Map([
  [0x01, 32],
  [0x06, 1312],
])
const WITNESS_KEYS: ReadonlyMap<number, number> = new Map([
  [0x04, 32],
  [0x06, 1312],
])
/** `members` in gateway.json has the same bound. */
const WITNESSES_MAX = 32
// biome-ignore lint/suspicious/noControlCharactersInRegex: a policy must not contain them
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/

export function isReached({ least, members }: Quorum, hasSigned: (key: string) => boolean): boolean {
  const reached = members.filter((one) =>
    typeof one === 'string' ? hasSigned(one) : isReached(one, hasSigned),
  )
  return reached.length >= least
}

export function witnessKeyFault(text: string): string | undefined {
  return keyFault(text, WITNESS_KEYS, 'of a witness, of signature type 4 or 6')
}

/** The public key in a verifier key, without name and type, because one key under two names counts once. */
export function keyMaterial(verifierKey: string): string {
  return Buffer.from(KEY.exec(verifierKey)?.[3] ?? '', 'base64').toString('base64', 1)
}

/** @throws PolicyFault */
export function parseTlogPolicy(text: string): TlogPolicy {
  const logs: string[] = []
  const witnesses: TlogPolicy['witnesses'][number][] = []
  const defined = new Map<string, Quorum | string>()
  /** Names that are members of a group already. */
  const used = new Set<string>()
  let quorum: Quorum | undefined

  const define = (name: string, what: Quorum | string) => {
    if (name === 'none' || defined.has(name))
      throw new PolicyFault(`defines ${describeValue(name)}, which is defined already`)
    defined.set(name, what)
  }
  const find = (name: string) => {
    const found = defined.get(name)
    if (found !== undefined) return found
    throw new PolicyFault(`names ${describeValue(name)}, which no line before defines`)
  }
  const lines: Record<string, (items: string[]) => void> = {
    log: ([key = '', , ...more]) => {
      if (more.length > 0) throw new PolicyFault('must be: log <vkey> [<url>]')
      refuse(keyFault(key, LOG_KEYS, 'of a log, of signature type 1 or 6'))
      if (isAmong(key, logs)) throw new PolicyFault('has a key that another log has')
      logs.push(key)
    },
    witness: ([name = '', key = '', url, ...more]) => {
      if (more.length > 0) throw new PolicyFault('must be: witness <name> <vkey> [<url>]')
      refuse(witnessKeyFault(key))
      const others = witnesses.map((one) => one.key)
      if (isAmong(key, others)) throw new PolicyFault('has a key that another witness has')
      if (others.length === WITNESSES_MAX)
        throw new PolicyFault(`is one witness too many: at most ${WITNESSES_MAX} may be named`)
      define(name, key)
      witnesses.push({ name, key, url })
    },
    group: ([name = '', threshold = '', ...names]) => {
      const members = names.map((member) => {
        if (used.has(member))
          throw new PolicyFault(`names ${describeValue(member)}, which is a member already`)
        used.add(member)
        return find(member)
      })
      const least = { any: 1, all: members.length }[threshold] ?? Number(/^[1-9]\d*$/.exec(threshold)?.[0])
      if (!(least >= 1 && least <= members.length)) {
        throw new PolicyFault('must be: group <name> all|any|<1 to the number of members> <member>…')
      }
      define(name, { least, members })
    },
    quorum: ([name = '', ...more]) => {
      if (more.length > 0) throw new PolicyFault('must be: quorum <name>')
      if (quorum !== undefined) throw new PolicyFault('is a second quorum')
      const found = name === 'none' ? NOBODY : find(name)
      quorum = typeof found === 'string' ? { least: 1, members: [found] } : found
    },
  }
  for (const [index, line] of text.split('\n').entries()) {
    try {
      if (CONTROL.test(line)) throw new PolicyFault('has a control character')
      const [word, ...items] = line.split(/[ \t]+/).filter((item) => item !== '')
      if (word === undefined || word.startsWith('#')) continue
      const read = Object.hasOwn(lines, word) ? lines[word] : undefined
      if (read === undefined)
        throw new PolicyFault(`must begin with log, witness, group or quorum, not ${describeValue(word)}`)
      read(items)
    } catch (error) {
      if (!(error instanceof PolicyFault)) throw error
      throw new PolicyFault(`line ${index + 1} ${error.message}`)
    }
  }
  if (quorum === undefined) throw new PolicyFault('has no line with a quorum')
  return { logs, witnesses, quorum }
}

function isAmong(key: string, others: readonly string[]): boolean {
  return others.some((other) => keyMaterial(other) === keyMaterial(key))
}

function refuse(fault: string | undefined): void {
  if (fault !== undefined) throw new PolicyFault(`has a key that ${fault}`)
}

function keyFault(text: string, kinds: ReadonlyMap<number, number>, wanted: string): string | undefined {
  const [, name = '', keyId, base64 = ''] = KEY.exec(text) ?? []
  const bytes = Buffer.from(base64, 'base64')
  if (keyId === undefined || bytes.toString('base64') !== base64) {
    // The tools of C2SP signed-note write a signing key in this form.
    const found = text.startsWith('PRIVATE+KEY+') ? 'a private one' : describeValue(text)
    return `must be a verifier key, <name>+<8 hexadecimal digits>+<base64>, but is ${found}`
  }
  const type = bytes[0] as number
  if (kinds.get(type) !== bytes.length - 1) {
    return `must be the key ${wanted}, but is of type ${type} with ${bytes.length - 1} bytes`
  }
  const digest = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), bytes]), 'hex')
  return digest.startsWith(keyId)
    ? undefined
    : `has the key id ${keyId}, but its key has ${digest.slice(0, 8)}`
}
