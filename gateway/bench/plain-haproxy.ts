import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Child, listening, startChild, versionOf } from './child.ts'
import { freePort } from './unused-port.ts'

export function hasHaproxy(): boolean {
  return versionOf(['haproxy', '-v'], /version (\S+)/) !== undefined
}

/** HAProxy with one thread, which only forwards HTTP/1.1 and HTTP/2. */
export async function startPlainHaproxy(
  dir: string,
  upstreamUrl: string,
): Promise<{ child: Child; port: number }> {
  const port = await freePort()
  const file = join(dir, 'haproxy.cfg')
  const lines = [
    'global',
    '    nbthread 1',
    'defaults',
    '    mode http',
    '    timeout client 65s',
    '    timeout server 30s',
    '    timeout connect 2s',
    'frontend public',
    `    bind 127.0.0.1:${port}`,
    '    default_backend service',
    'backend service',
    `    server one ${new URL(upstreamUrl).host}`,
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  const child = startChild({ command: ['haproxy', '-db', '-f', file], cpus: undefined })
  await listening(child, port)
  return { child, port }
}
