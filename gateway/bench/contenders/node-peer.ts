import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AUDIENCE, ISSUER } from '../bench-tokens.ts'
import { firstMessage, startChild } from '../child.ts'
import type { Contender, Ground, RunningContender } from '../contender.ts'
import { installPeers } from '../peers/install.ts'
import type { PeerSettings } from '../peers/peer-policy.ts'

const PEERS = fileURLToPath(new URL('../peers', import.meta.url))

/** A proxy package of Node's, with the same features added by hand in `program`. */
export function nodePeer(name: string, program: URL): Contender {
  return {
    name,
    work: 'by hand: token verified (jsonwebtoken, cache), scope, window, two pino lines, prom-client, six headers, id',
    authenticates: true,
    install: installPeers,
    version: () => versionOf(name),
    start: (ground) => start({ name, program }, ground),
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
  ground: Ground,
): Promise<RunningContender> {
  const logFile = join(ground.dir, 'peer.log')
  writeFileSync(logFile, '')
  const settings: PeerSettings = {
    peer: peer.name,
    upstreamPort: ground.upstreamPort,
    publicKeyFiles: ground.tokens.publicKeyFiles,
    issuer: ISSUER,
    audience: AUDIENCE,
    logFile,
  }
  const child = startChild({
    command: [process.execPath, fileURLToPath(peer.program), JSON.stringify(settings)],
    env: { NODE_ENV: 'production' },
    cpus: ground.cpus,
    ipc: true,
  })
  const { port } = await firstMessage<{ port: number }>(child)
  return { ports: [port], pids: [child.pid], tidy: () => truncateSync(logFile), end: child.end }
}
