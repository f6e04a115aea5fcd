import type { LoadedFile } from '../../config/load-file.ts'
import { Reloader } from '../../config/reload/reloader.ts'
import { fingerprint, parseAdminToken } from '../../config/secret-line.ts'
import { type Reports, reporter, type Watching } from './reload-reports.ts'

interface WatchedToken {
  readonly file: string
  readonly loaded: LoadedFile<string>
  readonly enforce: (token: string) => void
}

/** Puts each edit of the admin token in force. The audit trail has its fingerprint only. */
export function watchAdminToken(reports: Reports, { file, loaded, enforce }: WatchedToken): Watching {
  const report = reporter(reports, { file, label: 'admin-token', what: 'admin tokens' })
  return new Reloader({
    file,
    ...loaded,
    parse: parseAdminToken,
    swap: enforce,
    onReload: (reload) =>
      reload.result === 'failure'
        ? report.failure(reload.faults)
        : report.success({
            changed: reload.changed,
            before: [fingerprint(reload.before)],
            after: [fingerprint(reload.after)],
          }),
  })
}
