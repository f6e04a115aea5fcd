import { client, throughUndici } from './scripted.test-support.ts'

/** The same contract through undici, which serves all upstreams once one of them is `https://`. */
client.create = throughUndici
await import('./attempts.test.ts')
await import('./responses.test.ts')
await import('./connections.test.ts')
await import('./flow.test.ts')
await import('./requests.test.ts')
await import('./retries.test.ts')
await import('./guarded.test.ts')
await import('./time.test.ts')
await import('./unread-bodies.test.ts')
