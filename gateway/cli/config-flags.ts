import type { Environment } from '../config/environment.ts'
import { type Flag, flagValue, type Given } from './command.ts'

/** Flags of every command that reads the configuration: each overrides its variable. */
export const CONFIG_FLAGS: Readonly<Record<string, Flag>> = {
  config: { value: 'FILE', about: 'gateway.json; default $GATEWAY_CONFIG, or config/gateway.json' },
  limits: { value: 'FILE', about: 'limits.json; default $GATEWAY_LIMITS, or config/limits.json' },
  clients: { value: 'FILE', about: 'clients.json; default $GATEWAY_CLIENTS, or config/clients.json' },
}

/** The environment that a gateway would have with these flags. */
export function environmentOf(flags: Given['flags']): Environment {
  const env: Record<string, string | undefined> = { ...process.env }
  for (const name of Object.keys(CONFIG_FLAGS)) {
    const file = flagValue(flags, name)
    if (file !== undefined) env[`GATEWAY_${name.toUpperCase()}`] = file
  }
  return env
}
