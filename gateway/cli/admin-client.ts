import schema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import { type Environment, NAMES, writtenKeys } from '../config/environment.ts'
import { describeFault } from '../config/faults.ts'
import { loadFile } from '../config/load-file.ts'
import { parseAdminToken } from '../config/secret-line.ts'
import { reachable } from '../edge/rules/network.ts'
import { createSender, type SendFault } from '../outgoing/sender.ts'
import { CommandFault, type Flags, type Given, UsageFault } from './command.ts'

export const TOKEN_FLAG = {
  'token-file': {
    value: 'FILE',
    about: 'file with the admin token; default $GATEWAY_ADMIN_TOKEN_FILE, or adminTokenFile of gateway.json',
  },
} as const satisfies Flags
export const ADMIN_FLAGS = {
  admin: {
    value: 'URL',
    about: 'URL of the admin listener; default: from the environment and gateway.json',
  },
  ...TOKEN_FLAG,
} as const satisfies Flags

const TIMEOUT_MS = 5000
const RELOAD_TIMEOUT_MS = 30_000
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024
const DEFAULTS = schema.properties

interface Asked {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly flags: Given['flags']
  readonly env: Environment
  /** False: sends no token. */
  readonly signed?: boolean
}

/** Asks a running gateway's admin listener. @throws CommandFault when there is none, or it wants a token */
export async function askAdmin({
  method,
  path,
  flags,
  env,
  signed = true,
}: Asked): Promise<{ readonly url: string; readonly status: number; readonly body: string }> {
  const url = adminUrl(flags.admin ?? defaultUrl(env), path)
  const file = flags['token-file'] ?? env.GATEWAY_ADMIN_TOKEN_FILE ?? writtenKeys(env).adminTokenFile
  const token = signed ? readToken(file) : undefined
  const timeoutMs = method === 'POST' ? RELOAD_TIMEOUT_MS : TIMEOUT_MS
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` }
  const send = createSender({ url, timeoutMs, maxResponseBytes: MAX_RESPONSE_BYTES })
  const { statusCode, body } = await send({ method, headers }).catch((error: SendFault) => {
    throw new CommandFault(`${url} does not answer: ${error.message}`)
  })
  if (signed && statusCode === 401) {
    const remedy = 'wants a token: name its file by --token-file or GATEWAY_ADMIN_TOKEN_FILE'
    const wrong = `refuses the token in ${file}: the gateway has another one`
    throw new CommandFault(`${url} ${token === undefined ? remedy : wrong}`)
  }
  return { url, status: statusCode, body: body.toString() }
}

function adminUrl(base: string, path: string): string {
  if (!/^https?:\/\//.test(base) || !URL.canParse(base)) {
    throw new UsageFault(`needs a URL such as http://127.0.0.1:9090, not "${base}"`)
  }
  return new URL(path, base).href
}

function defaultUrl(env: Environment): string {
  const { adminHost, adminPort } = writtenKeys(env)
  const host = env.GATEWAY_ADMIN_HOST ?? adminHost ?? DEFAULTS.adminHost.default
  const port = env.GATEWAY_ADMIN_PORT ?? adminPort ?? DEFAULTS.adminPort.default
  if (Number(port) === 0) throw new UsageFault('cannot know which port the gateway took: name it by --admin')
  return `http://${reachable(host)}:${port}`
}

function readToken(file: string | undefined): string | undefined {
  if (file === undefined) return undefined
  const { value, faults } = loadFile(file, parseAdminToken, {
    namedBy: `--token-file, or ${NAMES.adminTokenFile}`,
  })
  if (faults !== undefined) throw new CommandFault(faults.map(describeFault).join('\n'))
  return value.value
}
