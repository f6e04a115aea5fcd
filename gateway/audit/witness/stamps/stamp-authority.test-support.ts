import { execFile, execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A time-stamping authority run by openssl: a root, and a certificate for time stamps that the root has issued. */
export interface StampAuthority {
  /** PEM of the root. */
  readonly caFile: string
  /** A TimeStampResp to a TimeStampReq. */
  respond(request: Buffer): Promise<Buffer>
}

const P_256 = 'EC -pkeyopt ec_paramgen_curve:P-256'
const CONFIG = `
[ca]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[tsa]
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
[reply]
serial = serial
digests = sha256
default_policy = 1.2.3.4.1
other_policies = 1.2.3.4.5
signer_digest = sha256
accuracy = secs:1
ess_cert_id_alg = sha256
`

/**
 * @param folder an empty one; @param kind of the key that signs stamps: words for `openssl genpkey`
 * @param days for which its certificate is valid; below 0: it has expired
 */
export function makeStampAuthority(folder: string, kind = P_256, days = 2): StampAuthority {
  const openssl = (args: string) => execFileSync('openssl', args.split(' '), { cwd: folder, stdio: 'pipe' })
  writeFileSync(join(folder, 'tsa.cnf'), CONFIG)
  writeFileSync(join(folder, 'serial'), '01\n')
  openssl(`genpkey -algorithm ${P_256} -out ca-key.pem`)
  openssl(`genpkey -algorithm ${kind} -out tsa-key.pem`)
  openssl(
    'req -x509 -new -key ca-key.pem -out ca.pem -subj /CN=Stamp-Root -days 2 -config tsa.cnf -extensions ca',
  )
  openssl('req -new -key tsa-key.pem -out tsa.csr -subj /CN=Stamps -config tsa.cnf')
  openssl(
    `x509 -req -in tsa.csr -CA ca.pem -CAkey ca-key.pem -set_serial 2 -days ${days} -extfile tsa.cnf -extensions tsa -out tsa.pem`,
  )
  return {
    caFile: join(folder, 'ca.pem'),
    respond: async (request) => {
      writeFileSync(join(folder, 'request.tsq'), request)
      const args =
        'ts -reply -queryfile request.tsq -signer tsa.pem -inkey tsa-key.pem -config tsa.cnf -section reply -out reply.tsr'
      await run('openssl', args.split(' '), { cwd: folder })
      return readFileSync(join(folder, 'reply.tsr'))
    },
  }
}

/** Serves stamps over HTTP as RFC 3161 section 3.4 says. Requests must come one after the other. */
export async function serveStamps(
  authority: StampAuthority,
): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    const isQuery = request.headers['content-type'] === 'application/timestamp-query'
    if (request.method !== 'POST' || request.url !== '/' || !isQuery) response.writeHead(404).end()
    else {
      const reply = await authority.respond(Buffer.concat(pieces)).catch(() => undefined)
      // A gateway may still ask when the end of a test has removed the authority's files.
      if (reply === undefined) request.destroy()
      else response.writeHead(200, { 'content-type': 'application/timestamp-reply' }).end(reply)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, server }
}
