import type { Logger } from 'pino'
import type { ClientTable } from '../config/client-table.ts'
import type { LoadedFile } from '../config/load-file.ts'
import type { Settings } from '../config/settings.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { LoadedTls } from '../tls/listener/tls-reload.ts'

/** Everything that is read before the parts of the gateway are made. */
export interface StartupConfiguration {
  readonly settings: Settings
  readonly limits: LoadedFile<readonly LimitRow[]>
  readonly clients: LoadedFile<ClientTable> | undefined
  readonly tls: LoadedTls | undefined
  readonly version: string
  readonly log: Logger
}
