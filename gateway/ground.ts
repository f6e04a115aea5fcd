import type { Logger } from 'pino'
import type { ClientTable } from './config/clients.ts'
import type { LoadedFile } from './config/load-file.ts'
import type { Settings } from './config/settings.ts'
import type { LimitRow } from './limits/row.ts'
import type { LoadedTls } from './tls/reload.ts'

/** What has been read before there is a gateway. */
export interface Ground {
  readonly settings: Settings
  readonly limits: LoadedFile<readonly LimitRow[]>
  readonly clients: LoadedFile<ClientTable> | undefined
  readonly tls: LoadedTls | undefined
  readonly version: string
  readonly log: Logger
}
