import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AUDIENCE, ISSUER } from '../bench-tokens.ts'
import { firstMessage, startChild } from '../child.ts'
import { type Contender, type ContenderSetup, type RunningContender, YOUNG_OBJECTS } from '../contender.ts'
import { installPeers } from '../peers/install.ts'
import type { PeerSettings } from '../peers/peer-policy.ts'

const PEERS = fileURLToPath(new URL('../peers', import.meta.url))

/** A Node proxy package, with the gateway's features added by hand in `program`. */
export function nodePeer(name: string, program: URL): Contender {
  return {
    name,
    work: 'by hand: token verified (jsonwebtoken, cache), scope, window, two pino lines, prom-client, six security headers, request id',
    authenticates: true,
    install: installPeers,
    version: () => versionOf(name),
    start: (setup) => start({ name, program }, setup),
  }
}

function versionOf(name: string): string | undefined {
  try {
    return JSON.parse(readFileSync(join(PEERS, 'node_modules', name, 'package.json'), 'utf8')).version
  } catch {
    return undefined
  }
}

async function start(
  peer: { readonly name: string; readonly program: URL },
  setup: ContenderSetup,
): Promise<RunningContender> {
  const logFile = join(setup.dir, 'peer.log')
  writeFileSync(logFile, '')
  const settings: PeerSettings = {
    peer: peer.name,
    upstreamPort: setup.upstreamPort,
    publicKeyFiles: setup.tokens.publicKeyFiles,
    issuer: ISSUER,
    audience: AUDIENCE,
    logFile,
  }
  const child = startChild({
    command: [process.execPath, ...YOUNG_OBJECTS, fileURLToPath(peer.program), JSON.stringify(settings)],
    env: { NODE_ENV: 'production' },
    cpus: setup.cpus,
    ipc: true,
  })
  const { port } = await firstMessage<{ port: number }>(child)
  return { ports: [port], pids: [child.pid], tidy: () => truncateSync(logFile), end: child.end }
}
