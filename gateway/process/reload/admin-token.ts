import { createHash } from 'node:crypto'
import type { LoadedFile } from '../../config/load-file.ts'
import { Reloader } from '../../config/reload/reloader.ts'
import { parseAdminToken } from '../../config/secret-line.ts'
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

/** Enough to tell tokens apart, and nothing to find one by: a token is too long to guess. */
function fingerprint(token: string): { readonly sha256: string } {
  return { sha256: createHash('sha256').update(token).digest('hex').slice(0, 16) }
}
