import { choice, flag, integer, keys, span, text } from './key-types.ts'

export const IDEMPOTENCY = keys({
  required: flag('Whether POST, PATCH, PUT and DELETE without a key get 400.', {
    default: false,
  }),
  header: text('The header with the key. Signatures must cover it, except `uk-jws`.', {
    default: 'Idempotency-Key',
    maxLength: 64,
    examples: ['x-idempotency-key'],
  }),
  maxKeyLength: integer('The most characters of a key.', { range: [1, 255], default: 255, examples: [40] }),
  keep: span('smhd', 'How long a key and its response are kept: "1m" to "30d".', {
    default: '24h',
    examples: ['24h', '7d'],
  }),
  maxResponseBytes: integer(
    'The most bytes of a response body that is kept; with `GATEWAY_STORE` at most 65,536. For a longer body only the status is kept.',
    { range: [0, 1_048_576], default: 65_536 },
  ),
  maxRequestBytes: integer(
    'The most bytes of the body of a request with a key. The body is held in memory; a longer one gets 413.',
    { range: [1, 1_048_576], default: 1_048_576, examples: [65_536] },
  ),
  maxKeysPerCaller: integer(
    'Keys of one caller that are kept at a time, on all rows together; one more gets 429.',
    { range: [1, 1_000_000], default: 10_000, examples: [100_000] },
  ),
  onUnknown: choice(
    ['refuse', 'forward'],
    'What happens to a request whose key has an unknown outcome. `refuse`: it gets 409. `forward`: it is sent again; for services that handle keys themselves.',
    { default: 'refuse' },
  ),
  onStoreFailure: choice(
    ['deny', 'local'],
    'While the shared store is away: `deny`: requests with a key get 503. `local`: each gateway uses its own keys, so two gateways may forward the same request.',
    { default: 'deny' },
  ),
})
