import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'

/*
 * A witness written from the specifications alone: C2SP tlog-witness, tlog-cosignature, tlog-checkpoint, signed-note
 * and RFC 6962. It shares no code with the gateway.
 */

export interface TestWitness {
  readonly name: string
  /** The log posts to `add-checkpoint` below it. */
  readonly url: string
  readonly vkey: string
  /** Leaves of the last tree that it cosigned for a log. */
  sizeOf(origin: string): number | undefined
  /** Status of each response. */
  readonly statuses: readonly number[]
  readonly server: Server
}

/** What a response is changed to, or `stall` for none. */
export type Lie = (
  status: number,
  body: string,
) => { readonly status: number; readonly body: string } | 'stall'

interface TestWitnessOptions {
  readonly name: string
  /** Verifier keys of the logs that it knows. */
  readonly logs: readonly string[]
  readonly keyType?: 'ed25519' | 'ml-dsa-44'
  /** PEM; undefined: plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string }
  readonly lie?: Lie
}

interface Head {
  readonly size: number
  readonly root: Buffer
  readonly note: string
}

const TYPES = { ed25519: 4, 'ml-dsa-44': 6 } as const
const RAW_KEY_BYTES = { ed25519: 32, 'ml-dsa-44': 1312 } as const
const REQUEST = /^old (0|[1-9]\d*)\n((?:[A-Za-z0-9+/]+={0,2}\n){0,63})\n(\S[\s\S]*)$/

export async function startTestWitness(options: TestWitnessOptions): Promise<TestWitness> {
  const { name, logs, keyType = 'ed25519', lie, tls } = options
  const { vkey, cosign } = makeCosigner(name, keyType)
  const heads = new Map<string, Head>()
  const statuses: number[] = []
  const listener: RequestListener = async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    const [, originHash] = /^\/([0-9a-f]{64})\/checkpoint$/.exec(request.url ?? '') ?? []
    if (request.method === 'GET' && originHash !== undefined) {
      const head = [...heads].find(([origin]) => sha256(Buffer.from(origin)).toString('hex') === originHash)
      response.writeHead(head === undefined ? 404 : 200).end(head?.[1].note)
      return
    }
    const isAdd = request.method === 'POST' && request.url === '/add-checkpoint'
    const body = Buffer.concat(pieces).toString()
    const honest = isAdd ? addCheckpoint(body, { logs, heads, cosign }) : { status: 404, body: '' }
    const said = lie === undefined ? honest : lie(honest.status, honest.body)
    if (said === 'stall') return
    statuses.push(said.status)
    const type = said.status === 409 ? 'text/x.tlog.size' : 'text/plain'
    response.writeHead(said.status, { 'content-type': type }).end(said.body)
  }
  const server = tls === undefined ? createServer(listener) : createHttpsServer(tls, listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
  return { name, url, vkey, statuses, server, sizeOf: (origin) => heads.get(origin)?.size }
}

/** @returns the signature line over a checkpoint */
type Cosign = (
  text: string,
  head: { readonly origin: string; readonly size: number; readonly root: Buffer },
) => string

function makeCosigner(
  name: string,
  keyType: keyof typeof TYPES,
): { readonly vkey: string; readonly cosign: Cosign } {
  const { privateKey, publicKey } = generateKeyPairSync(keyType as 'ed25519')
  const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-RAW_KEY_BYTES[keyType])
  const key = Buffer.concat([Buffer.of(TYPES[keyType]), raw])
  const keyId = sha256(Buffer.from(`${name}\n`), key).subarray(0, 4)
  return {
    vkey: `${name}+${keyId.toString('hex')}+${key.toString('base64')}`,
    cosign: (text, head) => {
      const time = uint64(Math.floor(Date.now() / 1000))
      const message =
        keyType === 'ed25519'
          ? Buffer.from(`cosignature/v1\ntime ${time.readBigUInt64BE()}\n${text}`)
          : subtreeMessage({ name, time, ...head })
      const signature = Buffer.concat([keyId, time, sign(null, message, privateKey)])
      return `— ${name} ${signature.toString('base64')}\n`
    },
  }
}

interface Memory {
  readonly logs: readonly string[]
  readonly heads: Map<string, Head>
  readonly cosign: Cosign
}

function addCheckpoint(request: string, { logs, heads, cosign }: Memory): { status: number; body: string } {
  const [, old = '', lines = '', note = ''] = REQUEST.exec(request) ?? []
  const split = note.lastIndexOf('\n\n')
  const text = note.slice(0, split + 1)
  const [origin = '', decimal = '', base64 = ''] = text.split('\n')
  if (split < 0 || base64 === '') return { status: 400, body: 'malformed' }
  const log = logs.find((vkey) => vkey.split('+')[0] === origin)
  if (log === undefined) return { status: 404, body: 'unknown log' }
  if (!isSigned(text, note.slice(split + 2), log)) return { status: 403, body: 'not signed' }
  const size = Number(decimal)
  const root = Buffer.from(base64, 'base64')
  if (Number(old) > size) return { status: 400, body: 'old is larger' }
  const known = heads.get(origin)
  if (Number(old) !== (known?.size ?? 0)) return { status: 409, body: `${known?.size ?? 0}\n` }
  const proof = lines
    .split('\n')
    .slice(0, -1)
    .map((line) => Buffer.from(line, 'base64'))
  const isConsistent =
    known === undefined || known.size === 0
      ? proof.length === 0 && (size > 0 || root.equals(sha256()))
      : goesOn(known, { size, root }, proof)
  if (!isConsistent && size === known?.size) return { status: 409, body: `${size}\n` }
  if (!isConsistent) return { status: 422, body: 'inconsistent' }
  const line = cosign(text, { origin, size, root })
  heads.set(origin, { size, root, note: note + line })
  return { status: 200, body: line }
}

/** True when a signature of the log's Ed25519 key is there, and none of that key is wrong. */
function isSigned(text: string, lines: string, vkey: string): boolean {
  const [name = '', id = '', ...rest] = vkey.split('+')
  const key = ed25519Key(Buffer.from(rest.join('+'), 'base64').subarray(1))
  const own = lines
    .split('\n')
    .map((line) => /^— (\S+) (\S+)$/.exec(line))
    .map((found) => ({ name: found?.[1], bytes: Buffer.from(found?.[2] ?? '', 'base64') }))
    .filter((one) => one.name === name && one.bytes.toString('hex', 0, 4) === id)
  return own.length > 0 && own.every(({ bytes }) => verify(null, Buffer.from(text), key, bytes.subarray(4)))
}

function ed25519Key(raw: Buffer): KeyObject {
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw])
  return createPublicKey({ key: spki, format: 'der', type: 'spki' })
}

/** RFC 6962 section 2.1.2, backwards: the roots that follow from SUBPROOF. */
function goesOn(
  old: { readonly size: number; readonly root: Buffer },
  next: { readonly size: number; readonly root: Buffer },
  proof: readonly Buffer[],
): boolean {
  if (old.size === next.size) return proof.length === 0 && old.root.equals(next.root)
  const rest = [...proof]
  const roots = (m: number, n: number, isWhole: boolean): readonly [Buffer, Buffer] => {
    if (m === n) {
      const hash = isWhole ? old.root : (rest.pop() ?? Buffer.of())
      return [hash, hash]
    }
    let k = 1
    while (k * 2 < n) k *= 2
    const other = rest.pop() ?? Buffer.of()
    if (m <= k) {
      const [before, after] = roots(m, k, isWhole)
      return [before, node(after, other)]
    }
    const [before, after] = roots(m - k, n - k, false)
    return [node(other, before), node(other, after)]
  }
  const [before, after] = roots(old.size, next.size, true)
  return rest.length === 0 && before.equals(old.root) && after.equals(next.root)
}

function node(left: Buffer, right: Buffer): Buffer {
  return sha256(Buffer.of(1), left, right)
}

function sha256(...parts: readonly Buffer[]): Buffer {
  return createHash('sha256').update(Buffer.concat(parts)).digest()
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes
}

function subtreeMessage(of: {
  readonly name: string
  readonly time: Buffer
  readonly origin: string
  readonly size: number
  readonly root: Buffer
}): Buffer {
  const text = (words: string) => Buffer.concat([Buffer.of(Buffer.byteLength(words)), Buffer.from(words)])
  const label = Buffer.from('subtree/v1\n\0')
  return Buffer.concat([label, text(of.name), of.time, text(of.origin), uint64(0), uint64(of.size), of.root])
}
