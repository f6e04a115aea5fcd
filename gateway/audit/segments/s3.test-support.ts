import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { AuditBucket } from '../../config/settings.ts'
import { temporaryDirectory } from '../trail.test-support.ts'

/** Why tests that need the server are skipped; false: it is there. */
export const NO_S3 =
  // Asking it for its help would cost a second of CPU.
  spawnSync('sh', ['-c', 'command -v moto_server']).status === 0
    ? false
    : 'moto_server, a server of the S3 protocol, is not installed: pip install "moto[server]"'

export const BUCKET: AuditBucket = {
  endpoint: '',
  bucket: 'evidence',
  region: 'eu-central-1',
  prefix: 'gateway-1/',
  credentialsFile: undefined,
  objectLock: undefined,
}

/** Asks as the owner of the bucket; moto checks no signature. */
export const asOwner = (url: string, init: RequestInit = {}) =>
  fetch(url, { ...init, headers: { authorization: 'AWS AKIAEXAMPLE:unchecked' } })

export function keysFile(t: TestContext): string {
  const file = join(temporaryDirectory(t), 'keys')
  fs.writeFileSync(file, '[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = secret/+\n')
  return file
}

/** Starts a server with the buckets `evidence` and `locked`, which runs until `end`. */
export async function startS3(): Promise<{ readonly endpoint: string; end(): void }> {
  const server = spawn('moto_server', ['-H', '127.0.0.1', '-p', '0'], { stdio: ['ignore', 'ignore', 'pipe'] })
  const endpoint = await new Promise<string>((resolve, reject) => {
    let said = ''
    // The output is read to the end: what the server says later must have a reader too.
    server.stderr?.on('data', (chunk: Buffer) => {
      said += chunk
      const port = /Running on http:\/\/127\.0\.0\.1:(\d+)\s/.exec(said)?.[1]
      if (port !== undefined) resolve(`http://127.0.0.1:${port}`)
    })
    server.once('close', () => reject(new Error(said)))
  })
  for (const [bucket, headers] of [
    ['evidence', {}],
    ['locked', { 'x-amz-bucket-object-lock-enabled': 'true' }],
  ] as const) {
    const made = await fetch(`${endpoint}/${bucket}`, { method: 'PUT', headers })
    assert.ok(made.ok, await made.text())
  }
  return { endpoint, end: () => server.kill() }
}

/** A server that stalls, fails, or says something wrong. @param receive called before the body has come */
export async function badServer(
  t: TestContext,
  respond: (request: http.IncomingMessage, response: http.ServerResponse) => void,
  receive = (request: http.IncomingMessage, response: http.ServerResponse) => {
    request.resume().on('end', () => respond(request, response))
  },
) {
  const server = http.createServer(receive)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
