import { client, throughUndici } from './scripted.test-support.ts'

/** What holds of the door holds of undici behind it: where an upstream is `https://`, all go through it. */
client.create = throughUndici
await import('./responses.test.ts')
await import('./connections.test.ts')
await import('./flow.test.ts')
await import('./requests.test.ts')
await import('./retries.test.ts')
await import('./time.test.ts')
await import('./unread-bodies.test.ts')
