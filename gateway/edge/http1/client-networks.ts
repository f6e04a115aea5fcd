import type { Socket } from 'node:net'
import { isOverShare } from '../rules/fair-share.ts'
import { Slots, type Slotted } from '../syntax/slots.ts'

/** A search for an idle connection looks at this many networks at most, and at this many connections of each. */
const MAX_NETWORKS = 64
const LOOKS_PER_NETWORK = 16
/** An address with more than this part of all places may lose busy connections too. */
const EXCESS = 1 / 8
/** Limit of refused streams that wait for their responses. They take no place. */
const MAX_REFUSED_STREAMS = 256

export interface Activity {
  /** True when no request is open. */
  readonly isIdle: boolean
  /** The longer the connection has been idle, the earlier this is. */
  readonly deadlineMs: number
}

export interface AcceptedConnection extends Slotted {
  readonly socket: Pick<Socket, 'destroy' | 'resetAndDestroy'>
  readonly peer: string
  readonly network: ClientNetwork
  activity: Activity
}

/** The address of a client (IPv6: its /64) or of a proxy, with its open connections. */
export class ClientNetwork implements Slotted {
  slot = -1
  readonly name: string
  /** A proxy stands for many clients: fair shares do not apply to it. */
  readonly isProxy: boolean
  readonly connections = new Slots<AcceptedConnection>()
  /** How many places the streams of its HTTP/2 connections have. */
  streams = 0

  constructor(name: string, isProxy: boolean) {
    this.name = name
    this.isProxy = isProxy
  }

  /** How many of all places it has; 0 without a connection, because its streams are about to end. */
  get part(): number {
    const { size } = this.connections
    return size === 0 ? 0 : size + this.streams
  }
}

/** Places of connections and streams. Networks with equal parts form a row, so the largest are found quickly. */
export class ClientNetworks {
  max: number
  readonly #byName = new Map<string, ClientNetwork>()
  readonly #rows: Slots<ClientNetwork>[] = []
  readonly #proxies = new Slots<ClientNetwork>()
  /** The largest part of one network, proxies aside. */
  largest = 0
  #size = 0
  #streams = 0
  #refusedStreams = 0
  #cursor = 0

  constructor(max = Number.POSITIVE_INFINITY) {
    this.max = max
  }

  get size(): number {
    return this.#size
  }

  get taken(): number {
    return this.#size + this.#streams
  }

  /** Use the network at once: it is kept only while it has connections. */
  networkNamed(address: string, isProxy: boolean): ClientNetwork {
    // After an edit of `trustedProxies` an address may have open connections as a proxy and as a client.
    const name = isProxy ? `proxy ${address}` : address
    return this.#byName.get(name) ?? new ClientNetwork(name, isProxy)
  }

  add(connection: AcceptedConnection): void {
    const { network } = connection
    if (network.connections.size === 0) this.#byName.set(network.name, network)
    this.#leaveRow(network)
    network.connections.add(connection)
    this.#size++
    this.#joinRow(network)
  }

  /** May be called twice for one connection. */
  remove(connection: AcceptedConnection): void {
    const { network } = connection
    if (network.connections.at(connection.slot) !== connection) return
    this.#leaveRow(network)
    network.connections.remove(connection)
    this.#size--
    this.#joinRow(network)
    const isLast = network.connections.size === 0 && this.#byName.get(network.name) === network
    if (isLast) this.#byName.delete(network.name)
  }

  /** True when one more connection or stream can get a place and no other has to leave. */
  hasRoom(network: ClientNetwork): boolean {
    const { max } = this
    const own = network.isProxy ? 0 : network.part
    const free = max - this.taken
    return free > 0 && !isOverShare({ own, free, max })
  }

  /** Closes a connection, idle if possible, when a new one needs the place. @returns false when there is no place */
  makeRoom(network: ClientNetwork): boolean {
    if (this.hasRoom(network)) return true
    const own = network.isProxy ? 0 : network.part
    const isFull = this.taken >= this.max
    const leaving = !isFull || own >= this.largest ? this.idleOf(network) : this.#leavingFor(own)
    if (leaving === undefined) return false
    this.remove(leaving)
    leaving.socket.destroy()
    return true
  }

  #leavingFor(own: number): AcceptedConnection | undefined {
    const isExcess = this.largest > own + 1 && this.largest > this.max * EXCESS
    return this.idleOfLargest() ?? (isExcess ? this.anyOfLargest() : undefined)
  }

  /** Counts a stream without a place until it has its response. @returns false when too many such streams wait */
  refuseStream(): boolean {
    if (this.#refusedStreams >= MAX_REFUSED_STREAMS) return false
    this.#refusedStreams++
    return true
  }

  endRefusedStream(): void {
    this.#refusedStreams--
  }

  countStream(network: ClientNetwork, by: 1 | -1): void {
    this.#streams += by
    const hasConnections = network.connections.size > 0
    if (hasConnections) this.#leaveRow(network)
    network.streams += by
    if (hasConnections) this.#joinRow(network)
  }

  idleOf(network: ClientNetwork): AcceptedConnection | undefined {
    let longest: AcceptedConnection | undefined
    for (const connection of this.#some(network.connections, LOOKS_PER_NETWORK))
      longest = longerIdle(longest, connection)
    return longest
  }

  /** Looks at the networks with the largest part first, at proxies last. */
  idleOfLargest(): AcceptedConnection | undefined {
    let networks = MAX_NETWORKS
    for (let size = this.largest; size > 0 && networks > 0; size--) {
      const row = this.#rows[size]
      if (row === undefined || row.size === 0) continue
      const longest = this.#idleOfRow(row, networks)
      if (longest !== undefined) return longest
      networks -= row.size
    }
    return this.#idleOfRow(this.#proxies, MAX_NETWORKS)
  }

  /** Gives any connection, idle or not; one of a proxy only when there is no other. */
  anyOfLargest(): AcceptedConnection | undefined {
    const [network] = this.#some(this.#rows[this.largest] ?? this.#proxies, 1)
    return network && this.#some(network.connections, 1)[0]
  }

  #idleOfRow(row: Slots<ClientNetwork>, most: number): AcceptedConnection | undefined {
    let longest: AcceptedConnection | undefined
    for (const network of this.#some(row, most)) {
      const idle = this.idleOf(network)
      if (idle !== undefined) longest = longerIdle(longest, idle)
    }
    return longest
  }

  #some<T extends Slotted>(all: Slots<T>, most: number): T[] {
    const some: T[] = []
    const count = Math.min(all.size, most)
    for (let i = 0; i < count; i++) some.push(all.at((this.#cursor + i) % all.size) as T)
    this.#cursor += count
    return some
  }

  #leaveRow(network: ClientNetwork): void {
    this.#rowOf(network).remove(network)
  }

  #joinRow(network: ClientNetwork): void {
    const { part } = network
    if (part > 0) this.#rowOf(network).add(network)
    if (network.isProxy) return
    if (part > this.largest) this.largest = part
    // This takes several steps when the last connection of a network ends before its streams.
    while (this.largest > 0 && (this.#rows[this.largest]?.size ?? 0) === 0) this.largest--
  }

  #rowOf(network: ClientNetwork): Slots<ClientNetwork> {
    if (network.isProxy) return this.#proxies
    const row = this.#rows[network.part] ?? new Slots()
    this.#rows[network.part] = row
    return row
  }
}

function longerIdle(
  longest: AcceptedConnection | undefined,
  connection: AcceptedConnection,
): AcceptedConnection | undefined {
  const { isIdle, deadlineMs } = connection.activity
  if (!isIdle) return longest
  return longest === undefined || deadlineMs < longest.activity.deadlineMs ? connection : longest
}
