import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import {
  type Authority,
  type CertificateOptions,
  CLIENT_AUTH,
  type Issued,
  makeAuthority,
  makeCertificate,
  makeRevocationList,
  SERVER_AUTH,
} from '../tls/demo/throw-away-ca.ts'
import type { Call, ReceivedResponse } from './client.ts'

/** Files for an HTTPS listener and its clients. */
export interface TlsSetup {
  readonly dir: string
  readonly ca: Authority
  readonly server: Issued
  /** Variables for startGateway: a free port, and the files. */
  readonly env: Readonly<Record<string, string>>
  /** Makes a client's certificate, which `ca` issues by default. */
  client(wish: Partial<CertificateOptions> & { readonly subject: string }): Promise<Issued>
  /** Writes a file into `dir`. Returns its path. */
  write(name: string, text: string): string
}

/** Makes an authority, a certificate for localhost and an empty revocation list. */
export async function makeTlsSetup(): Promise<TlsSetup> {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-tls-'))
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
  const write = (name: string, text: string) => {
    const file = join(dir, name)
    writeFileSync(file, text)
    return file
  }
  const ca = await makeAuthority({ subject: 'CN=Root,O=Test' })
  const server = await makeServerCertificate(ca)
  return {
    dir,
    ca,
    server,
    env: {
      GATEWAY_TLS_PORT: '0',
      GATEWAY_TLS_CERT: write('server.pem', server.certPem),
      GATEWAY_TLS_KEY: write('server-key.pem', server.keyPem),
      GATEWAY_TLS_CLIENT_CA: write('ca.pem', ca.certPem),
      GATEWAY_TLS_CLIENT_CRL: write('crl.pem', await makeRevocationList(ca)),
    },
    client: (wish) => makeCertificate({ issuer: ca, extendedKeyUsages: [CLIENT_AUTH], ...wish }),
    write,
  }
}

export function makeServerCertificate(
  ca: Authority,
  wish: Partial<CertificateOptions> = {},
): Promise<Issued> {
  return makeCertificate({
    subject: 'CN=localhost',
    issuer: ca,
    san: [
      { type: 'dns', value: 'localhost' },
      { type: 'ip', value: '127.0.0.1' },
    ],
    extendedKeyUsages: [SERVER_AUTH],
    ...wish,
  })
}

/** Options that trust `ca` and present `certificate`. */
export function secureOptions(
  ca: Authority,
  certificate?: Issued,
): ConnectionOptions & { readonly ca: string } {
  const shown = certificate && { cert: certificate.certPem, key: certificate.keyPem }
  return { host: '127.0.0.1', servername: 'localhost', ca: ca.certPem, ...shown }
}

export interface SecureCall extends Omit<Call, 'agent'> {
  readonly port: number | undefined
  readonly path: string
  readonly ca: Authority
  readonly certificate?: Issued | undefined
  /** The agent of an open connection. */
  readonly agent?: Agent
}

export async function secureCall(options: SecureCall): Promise<ReceivedResponse> {
  const { port, path, ca, certificate, body } = options
  const isJson = typeof body === 'object' && !Buffer.isBuffer(body)
  const req = request({
    ...secureOptions(ca, certificate),
    port,
    path,
    method: options.method ?? 'GET',
    agent: options.agent ?? new Agent(),
    headers: options.headers ?? {},
  })
  req.end(isJson ? JSON.stringify(body) : body)
  const [res] = await once(req, 'response')
  req.on('error', () => {})
  const chunks: Buffer[] = []
  for await (const chunk of res) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString('utf8')
  return {
    status: res.statusCode,
    headers: res.headers,
    rawHeaders: res.rawHeaders,
    body: text,
    json: () => JSON.parse(text),
  }
}

/** @throws when the handshake fails */
export async function secureSocket(port: number | undefined, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ ...options, port: port as number })
  await once(socket, 'secureConnect')
  socket.on('error', () => {})
  return socket
}

/** Sends these bytes over TLS. Returns everything until the other side closes. */
export async function sendSecureBytes(
  port: number | undefined,
  options: ConnectionOptions,
  bytes: string,
): Promise<string> {
  const socket = await secureSocket(port, options)
  let response = ''
  socket.setEncoding('latin1').on('data', (text: string) => {
    response += text
  })
  socket.write(bytes, 'latin1')
  await once(socket, 'close')
  return response
}

export async function runTool(
  command: string,
  args: readonly string[],
  input = '',
): Promise<{ readonly status: number | null; readonly output: string }> {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [status] = await once(child, 'close')
  return { status, output }
}
