import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { configFiles, type Environment, parseEnvironment } from '../../config/environment.ts'
import { type GatewayFile, parseGatewayFile } from '../../config/gateway-file.ts'
import { override } from '../../config/json/json-file.ts'
import { loadFile } from '../../config/load-file.ts'
import { clientsInUse } from '../../config/load-settings.ts'
import { completeTls } from '../../config/rules/tls-rules.ts'
import type { TlsSettings } from '../../config/settings.ts'

/** The other files that a gateway starts with. */
interface NamedFiles {
  readonly clientsFile: string | undefined
  readonly adminTokenFile?: string | undefined
  readonly tls: TlsSettings | undefined
}

/**
 * Those that are known although gateway.json or the environment has a fault: so that the faults in them come at once with that.
 * Nothing is named that the faulty part might name otherwise.
 */
export function filesNamedAnyway(env: Environment): NamedFiles {
  const { configFile } = configFiles(env)
  const { overrides, faults } = parseEnvironment(env)
  const file = loadFile(configFile, parseGatewayFile).value?.value
  const mayOverride = faults.length > 0 && Object.keys(env).some((name) => name.startsWith('GATEWAY_TLS_'))
  const merged = { tls: { ...file?.tls } }
  override(merged, overrides)
  const tls = mayOverride ? undefined : completeTls({ configFile, merged: merged.tls, overrides }).value
  const adminTokenFile = env.GATEWAY_ADMIN_TOKEN_FILE || file?.adminTokenFile
  return { clientsFile: namedClients(env, file), adminTokenFile, tls }
}

/** The file of clients that counts. With faults in gateway.json it is not known whether a route takes clients: then the table beside it counts. */
function namedClients(env: Environment, file: GatewayFile | undefined): string | undefined {
  const { configFile, clientsFile } = configFiles(env)
  const isBeside = dirname(resolve(configFile)) === dirname(resolve(clientsFile)) && existsSync(clientsFile)
  const isUsed = file === undefined ? isBeside || env.GATEWAY_CLIENTS !== undefined : clientsInUse(env, file)
  return isUsed ? clientsFile : undefined
}
