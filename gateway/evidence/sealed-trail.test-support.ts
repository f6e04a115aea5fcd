import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { requestRecord, responseTo, startRecord, stopRecord } from '../audit/audit-records.ts'
import { type HashText, sha256 } from '../audit/seals/hashes.ts'
import { makeSealKey, readSealKey, type SealKey } from '../audit/seals/seal-key.ts'
import { SealedLog } from '../audit/seals/sealed-log.ts'
import { formatVerifierKey } from '../audit/seals/signed-note.ts'
import { checkpointFile, logDirectory, TILE_WIDTH, tilePath } from '../audit/seals/tiles.ts'

/** A trail in a directory of its own, written and sealed as by a gateway, in one thread. */
export class SealedTrail {
  readonly file: string
  readonly directory: string
  readonly keyFile: string
  readonly key: SealKey
  readonly vkey: string
  /** Lines of all segments in order, also of pruned ones. */
  readonly lines: string[] = []
  /** Closed segments, oldest first, and where each begins. */
  readonly closed: { path: string; readonly first: number }[] = []
  /** All checkpoints, oldest first. */
  readonly checkpoints: Buffer[] = []
  readonly #log: SealedLog
  #first = 0
  #ms: number
  #requests = 0

  constructor(dir: string, beginMs = Date.parse('2026-11-20T00:00:00Z')) {
    mkdirSync(dir, { recursive: true })
    this.file = join(dir, 'audit.ndjson')
    this.directory = logDirectory(this.file)
    this.keyFile = join(dir, 'audit-seal-key.pem')
    makeSealKey(this.keyFile)
    this.key = readSealKey(this.keyFile)
    this.vkey = formatVerifierKey(this.key.verifier)
    this.#log = SealedLog.open(this.directory, this.key)
    this.#ms = beginMs
    writeFileSync(this.file, '')
  }

  get sealedSize(): number {
    return this.#log.sealedSize
  }

  write(...lines: readonly string[]): void {
    this.lines.push(...lines)
    this.append(lines.join(''))
    for (const line of lines) this.#log.append(leafHashOf(line))
  }

  /** Appends without a seal. The clock of this trail gives the file its time of change. */
  append(text: string): void {
    appendFileSync(this.file, text)
    utimesSync(this.file, this.#ms / 1000, this.#ms / 1000)
  }

  start(): void {
    this.write(startRecord({ timestamp: this.#time(), version: '0.1.0', pid: 7, open: 0 }))
  }

  stop(reason: string): void {
    this.write(stopRecord({ timestamp: this.#time(), pid: 7, open: 0, reason }))
  }

  exchange(statusCode = 200): void {
    this.write(...this.#exchange(statusCode))
  }

  /** Writes many at once, which costs a tenth. */
  exchanges(count: number): void {
    this.write(...Array.from({ length: count }, () => this.#exchange(200)).flat())
  }

  /** @returns the line of the request */
  request(): string {
    const request = this.#request()
    this.write(request)
    return request
  }

  #exchange(statusCode: number): [request: string, response: string] {
    const request = this.#request()
    return [request, responseTo(request, statusCode, 1.5)]
  }

  #request(): string {
    const n = ++this.#requests
    return requestRecord({
      requestId: `request-${n}`,
      timestamp: this.#time(),
      method: 'GET',
      path: `/api/data/${n}`,
      userId: undefined,
      clientId: undefined,
      ip: '192.0.2.1',
      userAgent: 'curl/8.0 é',
      gatewayId: undefined,
    })
  }

  async seal(): Promise<void> {
    const { origin, size, root } = await this.#log.seal(0, () => {})
    this.checkpoints.push(readFileSync(checkpointFile(this.directory)))
    const facts = {
      type: 'AUDIT_SEAL',
      timestamp: this.#time(),
      origin,
      size,
      root: root.toString('base64'),
      format: 1,
    }
    this.write(`${JSON.stringify(facts)}\n`)
  }

  /** The gateway ends in order. */
  async end(): Promise<void> {
    this.stop('stopped')
    await this.seal()
  }

  async rotate(compression: 'none' | 'zstd' | 'gzip' = 'none'): Promise<void> {
    this.stop('rotated')
    await this.seal()
    const stamp = this.#time().replaceAll(/[-:.]/g, '')
    const path = `${this.file}.${stamp}`
    renameSync(this.file, path)
    const segment = { path, first: this.#first }
    this.closed.push(segment)
    this.#first = this.lines.length
    if (compression !== 'none') {
      const bytes = readFileSync(path)
      segment.path = `${path}.${compression === 'zstd' ? 'zst' : 'gz'}`
      writeFileSync(segment.path, compression === 'zstd' ? zstdCompressSync(bytes) : gzipSync(bytes))
      rmSync(path)
    }
    writeFileSync(this.file, '')
    this.start()
  }

  /** Seals an AUDIT_PRUNE, then removes the oldest closed segment and the tiles that only it needs. */
  async prune(): Promise<void> {
    const oldest = this.closed.shift()
    if (oldest === undefined) return
    const minimum = this.closed[0]?.first ?? this.#first
    const facts = { segment: oldest.path, first: oldest.first, last: minimum - 1, reason: 'age' }
    this.write(`${JSON.stringify({ type: 'AUDIT_PRUNE', timestamp: this.#time(), ...facts })}\n`)
    await this.seal()
    rmSync(oldest.path)
    for (const level of [0, 1]) {
      const width = TILE_WIDTH ** (level + 1)
      for (let index = 0; (index + 1) * width <= minimum; index++) {
        rmSync(join(this.directory, tilePath(level, index)), { force: true })
      }
    }
  }

  #time(): string {
    this.#ms += 10
    return new Date(this.#ms).toISOString()
  }
}

function leafHashOf(line: string): HashText {
  return sha256(Buffer.concat([Buffer.of(0), Buffer.from(line)]))
}
