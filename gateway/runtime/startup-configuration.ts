import type { Logger } from 'pino'
import type { ClockOffset } from '../audit/clock-offset.ts'
import type { ClientTable } from '../config/clients/clients-file.ts'
import type { LoadedFile } from '../config/load-file.ts'
import type { SettingsTexts } from '../config/reload/reread-settings.ts'
import type { Settings } from '../config/settings.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { LoadedTls } from '../tls/listener/tls-reload.ts'

export interface StartupConfiguration {
  readonly settings: Settings
  readonly texts: SettingsTexts
  readonly limits: LoadedFile<readonly LimitRow[]>
  readonly clients: LoadedFile<ClientTable> | undefined
  readonly tls: LoadedTls | undefined
  readonly adminToken?: LoadedFile<string> | undefined
  readonly version: string
  /** Undefined when nobody tells it. */
  readonly clock?: ClockOffset | undefined
  readonly log: Logger
  /** Set when a shared store is configured: see `loadStoreModule`. */
  readonly storeModule: StoreModule | undefined
}

type StoreModule = typeof import('../store/store-member.ts')

/** Loads what joins the shared store only when one is configured: its client takes 170 ms and 30 MB. */
export async function loadStoreModule({ store }: Pick<Settings, 'store'>): Promise<StoreModule | undefined> {
  return store === undefined ? undefined : import('../store/store-member.ts')
}
