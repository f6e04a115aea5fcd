import { isIP } from 'node:net'
import { createClient, createCluster } from '@redis/client'
import type { StoreSettings } from '../../config/rules/store-address.ts'
import { messageOf } from '../../terminal/printable.ts'
import { boundReplies } from './reply-bounds.ts'

/** After an error reply, the promise rejects with `ErrorReply` of `@redis/client`. */
export type StoreReply = string | number | boolean | null | readonly StoreReply[]

/** One connection, or the connections to all servers of a cluster. */
export interface StoreLink {
  send(args: readonly string[], key: string | undefined): Promise<StoreReply>
  /** Never rejects. */
  readonly ended: Promise<Error>
  destroy(cause: Error): void
}

type Address = StoreSettings['addresses'][number]

const CONNECT_TIMEOUT_MS = 2000
/** Further commands reject at once. */
const MAX_COMMANDS = 10_000
const FIRST_RETRY_MS = 50
const MAX_RETRY_MS = 1000

boundReplies()

const CLIENT_OPTIONS = {
  // All servers and proxies know this protocol.
  RESP: 2,
  disableOfflineQueue: true,
  commandsQueueMaxLength: MAX_COMMANDS,
  // A timer for each command costs four times as much as the command. The breaker has one timer for all.
  commandOptions: { timeout: 0 },
  disableClientInfo: true,
  maintNotifications: 'disabled',
} as const

/** Outside clusters each client duplicates this one: `createClient` would make a class of 500 methods (33 ms) for each address. */
const PARENT = createClient(CLIENT_OPTIONS)

export type Send = StoreLink['send']

/** Sends a few commands, then ends the connection. */
export async function withLink<T>(
  dialled: Promise<StoreLink>,
  name: string,
  use: (send: Send) => Promise<T>,
): Promise<T> {
  const link = await dialled
  const broken = link.ended.then((cause) => Promise.reject(cause))
  broken.catch(() => undefined)
  try {
    return await use((args, key) =>
      inTime(Promise.race([link.send(args, key), broken]), `${name} to ${args[0]}`),
    )
  } finally {
    link.destroy(new Error('asked'))
  }
}

/** @param onNodeReady called at each connection to a cluster's server */
export function dialStore(settings: StoreSettings, onNodeReady: () => void): Promise<StoreLink> {
  const [first] = settings.addresses
  if (first === undefined) throw new TypeError('a store needs an address')
  if (settings.kind === 'cluster') return dialCluster(settings, onNodeReady)
  return settings.kind === 'sentinel' ? dialMaster(settings) : dialServer(settings, first)
}

/** @throws (rejects) when the server cannot be reached or refuses the user */
export function dialServer(settings: StoreSettings, address: Address): Promise<StoreLink> {
  return dial(settings, address, { username: settings.user, password: settings.password })
}

/**
 * Asks the Sentinels in turn for the master, without a subscription. A replaced master drops its clients or hangs.
 * @throws (rejects) when no Sentinel names a server that says it is a master
 */
export async function dialMaster(settings: StoreSettings): Promise<StoreLink> {
  const causes: string[] = []
  for (const { host, port } of settings.addresses) {
    try {
      // Sentinels have other users, and must not see the store's password.
      const sentinel = await dial(settings, { host, port }, {})
      try {
        return await masterBy(sentinel, settings)
      } finally {
        sentinel.destroy(new Error('asked'))
      }
    } catch (error) {
      causes.push(`Sentinel ${host}:${port}: ${messageOf(error)}`)
    }
  }
  throw new Error(causes.join('; '))
}

/** Asks twice, because a slow master may have been replaced without knowing it. */
async function masterBy(sentinel: StoreLink, settings: StoreSettings): Promise<StoreLink> {
  const ask = async () => {
    const reply = await inTime(
      sentinel.send(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', settings.service ?? ''], undefined),
      'the Sentinel',
    )
    if (!Array.isArray(reply)) throw new Error(`knows no service ${settings.service}`)
    return { host: String(reply[0]), port: Number(reply[1]) }
  }
  const address = await ask()
  const master = await dialServer(settings, address)
  try {
    const role = (await inTime(
      master.send(['ROLE'], undefined),
      `the master ${address.host}:${address.port}`,
    )) as readonly StoreReply[]
    if (role[0] !== 'master') throw new Error(`the master that it names is a ${String(role[0])}`)
    const now = await ask()
    if (now.host !== address.host || now.port !== address.port) throw new Error('the master changes')
    return master
  } catch (error) {
    master.destroy(new Error('not the master'))
    throw error
  }
}

async function dial(
  settings: StoreSettings,
  { host, port }: Address,
  credentials: { readonly username?: string | undefined; readonly password?: string | undefined },
): Promise<StoreLink> {
  const { promise: ended, resolve } = Promise.withResolvers<Error>()
  const client = PARENT.duplicate({
    ...defined(credentials),
    socket: { host, port, ...socketOptions(settings, host), reconnectStrategy: false },
  })
  client.on('error', resolve)
  const link: StoreLink = {
    ended,
    send: (args) => client.sendCommand(args),
    destroy: (cause) => {
      resolve(cause)
      // A client that is not open may still have a socket.
      client.destroy()
    },
  }
  try {
    await connected(settings, client.connect(), `${host}:${port}`)
  } catch (error) {
    link.destroy(new Error('not connected'))
    throw error
  }
  return link
}

/** Removes the password from errors, because a server repeats the arguments of an unknown command. */
async function connected(
  { password }: StoreSettings,
  connecting: Promise<unknown>,
  whose: string,
): Promise<void> {
  try {
    await inTime(connecting, whose)
  } catch (error) {
    const cause = messageOf(error)
    throw new Error(password === undefined ? cause : cause.replaceAll(password, '[password]'))
  }
}

/** Rejects after a time, because the kernel accepts connections for a frozen server too. @param whose for the error */
function inTime<T>(reply: Promise<T>, whose: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const why = `no reply of ${whose} within ${CONNECT_TIMEOUT_MS / 1000} s`
  const timer = setTimeout(() => reject(new Error(why)), CONNECT_TIMEOUT_MS)
  return Promise.race([reply, late]).finally(() => clearTimeout(timer))
}

async function dialCluster(settings: StoreSettings, onNodeReady: () => void): Promise<StoreLink> {
  const { promise: ended, resolve } = Promise.withResolvers<Error>()
  const socket = { ...socketOptions(settings), reconnectStrategy: retryAfterMs }
  const credentials = defined({ username: settings.user, password: settings.password })
  const cluster = createCluster({
    rootNodes: settings.addresses.map(({ host, port }) => ({ socket: { host, port } })),
    defaults: { ...CLIENT_OPTIONS, ...credentials, socket },
    RESP: 2,
    commandOptions: { timeout: 0 },
  })
  // The commands of a failed server reject, and the client renews its connections itself.
  cluster.on('error', () => undefined)
  cluster.on('node-ready', onNodeReady)
  try {
    await connected(settings, cluster.connect(), 'the cluster')
  } catch (error) {
    if (cluster.isOpen) cluster.destroy()
    throw error
  }
  return {
    ended,
    send: (args, key) => cluster.sendCommand(key, false, [...args]),
    destroy: (cause) => {
      resolve(cause)
      if (cluster.isOpen) cluster.destroy()
    },
  }
}

/** @param host undefined for servers of a cluster, which give their own addresses */
function socketOptions({ tls }: StoreSettings, host?: string) {
  const connectTimeout = CONNECT_TIMEOUT_MS
  if (tls === undefined) return { connectTimeout }
  // SNI takes names only (RFC 6066 section 3). NODE_TLS_REJECT_UNAUTHORIZED=0 must have no effect.
  const servername = isIP(host ?? '') === 0 ? host : undefined
  return {
    connectTimeout,
    tls: true as const,
    rejectUnauthorized: true,
    ...defined({ ca: tls.ca, servername }),
  }
}

/** Has jitter, because many gateways must not come back at the same moment. @param retries before this one */
export function retryAfterMs(retries: number): number {
  return Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** retries) * (0.5 + Math.random() / 2)
}

function defined<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}
