import { randomBytes, scryptSync } from 'node:crypto'
import { ErrorReply } from '@redis/client'
import type { StoreSettings } from '../config/rules/store-address.ts'
import { messageOf } from '../terminal/printable.ts'
import { dialMaster, dialServer, dialStore, type Send, withLink } from './connection/store-link.ts'
import { BEGIN_SCRIPT, FINISH_SCRIPT } from './idempotency-scripts.ts'
import { TAKE_SCRIPT, TAKE_SHA } from './take-script.ts'

interface StoreFindings {
  readonly good: readonly string[]
  readonly warnings: readonly string[]
  readonly faults: readonly string[]
}

const KEPT_MS = '60000'
const FINGERPRINT_MS = '86400000'

/** The secret in force, then older secrets. Absent if no row needs them. */
interface SharedSecrets {
  readonly maskKeyFile?: readonly string[] | undefined
  readonly idempotencyKeyFile?: readonly string[] | undefined
}

const CONSEQUENCES = {
  maskKeyFile: 'the same value would have two pseudonyms',
  idempotencyKeyFile:
    'requests with keys that the other has begun would get 503. Before a change, add the new line below the old one at each gateway',
}

/**
 * Runs each command of a gateway on keys of its own, and checks whether servers could lose data. Never rejects.
 *
 * @param secrets compared with the secrets of gateways checked within a day
 */
export async function checkStore(
  settings: StoreSettings,
  secrets: SharedSecrets = {},
): Promise<StoreFindings> {
  const found = { good: [] as string[], warnings: [] as string[], faults: [] as string[] }
  try {
    if (settings.kind === 'sentinel')
      await withLink(dialMaster(settings), 'the master', (send) => look(send, 'the master', found))
    else
      for (const address of settings.addresses) {
        const name = `${address.host}:${address.port}`
        await withLink(dialServer(settings, address), name, (send) => look(send, name, found))
      }
    const { prefix } = settings
    await withLink(
      dialStore(settings, () => undefined),
      'the store',
      async (send) => {
        await tryCommands(send, settings, found.faults, secrets.idempotencyKeyFile !== undefined)
        if (found.faults.length > 0) return
        for (const key of ['maskKeyFile', 'idempotencyKeyFile'] as const) {
          const { [key]: lines } = secrets
          if (lines !== undefined) await compareKey(send, { prefix, key, lines }, found.faults)
        }
      },
    )
  } catch (error) {
    found.faults.push(`cannot be reached: ${messageOf(error)}`)
  }
  return found
}

async function look(
  send: Send,
  name: string,
  { good, warnings }: { readonly good: string[]; readonly warnings: string[] },
): Promise<void> {
  let info: string
  try {
    info = String(await send(['INFO'], undefined))
  } catch (error) {
    if (!(error instanceof ErrorReply)) throw error
    good.push(`${name}: reached`)
    warnings.push(`${name}: eviction and persistence cannot be checked: ${messageOf(error)}`)
    return
  }
  const field = (key: string) => new RegExp(`^${key}:(.*?)\r?$`, 'm').exec(info)?.[1]
  const valkey = field('valkey_version')
  good.push(
    `${name}: reached, ${valkey === undefined ? `Redis ${field('redis_version')}` : `Valkey ${valkey}`}`,
  )
  const policy = field('maxmemory_policy')
  if (policy !== 'noeviction') {
    warnings.push(
      `${name}: maxmemory-policy is ${policy}: a full server may forget counts and ended sessions; set noeviction`,
    )
  }
  if (field('aof_enabled') !== '1') {
    warnings.push(
      `${name}: appendonly is off: a restart forgets counts and accepted messages since the last snapshot, or all; set appendonly yes`,
    )
  }
}

/** Also tries the commands of scripts, because a server checks the rights to them too. */
async function tryCommands(
  send: Send,
  { prefix, kind }: StoreSettings,
  faults: string[],
  hasKeys: boolean,
): Promise<void> {
  const newTag = () => `${prefix}:{check-${randomBytes(6).toString('hex')}}`
  const tag = newTag()
  // Except in a cluster, one command takes from the limits of many callers.
  const takes = [tag, ...(kind === 'cluster' ? [] : [newTag()])].map((one) => `${one}:take`)
  const [text, list, set, stream] = [`${tag}:text`, `${tag}:list`, `${tag}:set`, `${tag}:stream`] as const
  const commands: readonly (readonly string[])[] = [
    ['PING'],
    ['TIME'],
    ['SET', text, '1', 'NX', 'PX', KEPT_MS],
    ['GET', text],
    ['EVAL', TAKE_SCRIPT, `${takes.length}`, ...takes, ...takes.map(() => '1 1000 1')],
    ['EVALSHA', TAKE_SHA, '1', `${tag}:take`, '1 1000 1'],
    ['RPUSH', list, '1', '2'],
    ['PEXPIRE', list, KEPT_MS],
    ['LINDEX', list, '-1'],
    ['LRANGE', list, '0', '1'],
    ['LSET', list, '-1', '3'],
    ['LPOP', list],
    ['ZADD', set, 'GT', 'CH', '1', 'hash'],
    ['ZSCAN', set, '0', 'COUNT', '1'],
    ['ZREMRANGEBYSCORE', set, '-inf', '1'],
    ...(hasKeys ? keyCommands(tag, set) : []),
    ['XADD', stream, 'MAXLEN', '~', '1', '*', 'kind', 'check'],
    ['XRANGE', stream, '-', '+', 'COUNT', '1'],
    ['XREVRANGE', stream, '+', '-', 'COUNT', '1'],
    ['XREAD', 'COUNT', '1', 'BLOCK', '1', 'STREAMS', stream, '0-0'],
    ['DEL', text, list, set, stream, ...takes],
  ]
  for (const args of commands) {
    try {
      await send(args, tag)
    } catch (error) {
      if (!(error instanceof ErrorReply)) throw error
      // Follows from an earlier failure, which was reported.
      if (/no such key|^NOSCRIPT/.test(error.message)) continue
      if (/^(MOVED|CROSSSLOT)/.test(error.message)) {
        faults.push(
          'is a server of a Redis Cluster: name several of its servers, separated by commas (if there is only one, name it twice)',
        )
        return
      }
      faults.push(`the server refuses ${args[0]}: ${messageOf(error)}`)
    }
  }
}

function keyCommands(tag: string, set: string): readonly (readonly string[])[] {
  const operands = ['2', `${tag}:text`, set, 'id', 'token']
  return [
    ['PEXPIRE', set, KEPT_MS, 'GT'],
    ['ZCARD', set],
    ['ZRANGEBYSCORE', set, '-inf', '1', 'LIMIT', '0', '1'],
    ['ZREM', set, 'hash'],
    ['DEL', `${tag}:text`],
    ['EVAL', BEGIN_SCRIPT.text, ...operands, 'check', 'content', '1000', KEPT_MS, '1', '0', 'request'],
    ['EVAL', FINISH_SCRIPT.text, ...operands, 'free', '0', KEPT_MS, ''],
  ]
}

/**
 * Compares keys with gateways checked before. Each gateway must have the key that is in force at the other. The store
 * gets slow, salted hashes, so that a key is as hard to guess as a password.
 */
async function compareKey(
  send: Send,
  {
    prefix,
    key,
    lines,
  }: { readonly prefix: string; readonly key: keyof SharedSecrets; readonly lines: readonly string[] },
  faults: string[],
): Promise<void> {
  const name = `${prefix}:{${key === 'maskKeyFile' ? 'mask' : 'idempotency'}-key}`
  const hashesWith = (salt: string) => lines.map((line) => scryptSync(line, salt, 32).toString('base64'))
  const [salt = randomBytes(16).toString('base64'), ...others] = String(
    (await send(['GET', name], name)) ?? '',
  )
    .split(' ')
    .filter((part) => part !== '')
  const own = hashesWith(salt)
  if (others.length > 0 && !(own.includes(others[0] ?? '') && others.includes(own[0] ?? '')))
    faults.push(
      `another gateway was checked with another "${key}" within a day: ${CONSEQUENCES[key]}. After a change of the key remove ${name} from the store`,
    )
  else await send(['SET', name, [salt, ...own].join(' '), 'PX', FINGERPRINT_MS], name)
}
