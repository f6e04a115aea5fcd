import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'

const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url))

export interface ComposeService {
  readonly image: string
  readonly build?: { readonly context: string; readonly target: string }
  readonly user?: string
  readonly read_only?: boolean
  readonly cap_drop?: readonly string[]
  readonly security_opt?: readonly string[]
  readonly ports?: readonly string[]
  readonly networks?: readonly string[]
  readonly secrets?: readonly string[]
  readonly volumes?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly command?: readonly string[]
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly stop_grace_period?: string
}

interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>
  readonly networks: Readonly<
    Record<
      string,
      {
        readonly internal?: boolean
        readonly ipam?: { readonly config: readonly { readonly subnet: string }[] }
      }
    >
  >
  readonly volumes: Readonly<Record<string, object>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
}

/** Reads config/compose.yaml strictly: a repeated key, an unknown tag or alias is an error. */
export function readCompose(): ComposeFile {
  const text = readFileSync(join(CONFIG, 'compose.yaml'), 'utf8')
  return parse(text, { merge: true, strict: true, uniqueKeys: true }) as ComposeFile
}
