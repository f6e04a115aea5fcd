import { anyText, choice, flag, integer, key, keys, list, span, text } from './key-types.ts'

const ROTATION = keys({
  maxBytes: integer('The size at which a file is closed. It is checked once a second.', {
    range: [65_536],
    examples: [268_435_456],
  }),
  maxAge: span('smhd', 'Greatest age of the first record, in s, m, h or d.', { examples: ['1d', '12h'] }),
  compress: choice(
    ['none', 'zstd'],
    '`zstd`: each closed and sealed file is compressed to `<file>.zst`. The original is removed after the copy was read back and compared.',
    { default: 'none' },
  ),
})

const RETENTION = keys({
  keep: span('smhd', 'How long closed files stay, in s, m, h or d.', { required: true, examples: ['400d'] }),
  unsealed: flag('Whether files of a trail without seals are removed.', { default: false }),
})

const OBJECT_LOCK = keys({
  mode: choice(
    ['GOVERNANCE', 'COMPLIANCE'],
    'COMPLIANCE: nobody can shorten the lock. GOVERNANCE: users with s3:BypassGovernanceRetention can.',
    { required: true, examples: ['COMPLIANCE', 'GOVERNANCE'] },
  ),
  retain: span('smhd', 'How long the lock holds, in s, m, h or d.', { required: true, examples: ['2190d'] }),
})

const S3 = keys({
  endpoint: anyText('URL of the server, without the bucket.', {
    required: true,
    examples: ['https://s3.eu-central-1.amazonaws.com'],
  }),
  bucket: anyText('Name of the bucket.', {
    required: true,
    pattern: '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$',
    patternErrorMessage: 'must be a name that a bucket can have',
    examples: ['evidence'],
  }),
  region: text('The region in request signatures.', { default: 'us-east-1', examples: ['eu-central-1'] }),
  prefix: anyText('Text before the name of each object. Each gateway needs its own.', {
    default: '',
    examples: ['gateway-1/'],
  }),
  credentialsFile: text(
    'File with lines such as `aws_access_key_id = …`; read for each request. Default: where the AWS SDK looks.',
    { examples: ['/run/secrets/evidence'] },
  ),
  objectLock: key(OBJECT_LOCK, 'Each object is sent with a lock. The bucket must have Object Lock.'),
})

const SHIP = keys({
  directory: text('An existing directory.', { examples: ['/mnt/evidence'] }),
  s3: key(
    S3,
    'A bucket of a server with the S3 protocol. This needs the packages @aws-sdk/client-s3 and @aws-sdk/lib-storage, which the image has. The credentials need s3:PutObject and s3:GetObject, and for a lock s3:PutObjectRetention.',
  ),
})

const MEMBER = keys({
  url: text('The submission prefix of the witness; checkpoints are posted to `/add-checkpoint` below it.', {
    required: true,
    examples: ['https://witness.example.com'],
  }),
  key: text('The verifier key of the witness (C2SP signed-note), of Ed25519 or ML-DSA-44 cosignatures.', {
    required: true,
    examples: ['witness.example.com/w1+8d66cf3f+BIyXLjtJRVy7WMNNeEMsOGHRcVS4C0y2S0Wf1mCbHXCb'],
  }),
  caFile: text(
    'PEM: the authorities that may have issued the certificate of the URL. Default: those that Node knows.',
    { examples: ['/run/tls/witness-ca.pem'] },
  ),
})

const WITNESSES = keys({
  policyFile: text(
    'C2SP tlog-policy file with the witnesses, their URLs, and the quorum, instead of `quorum` and `members`.',
    { examples: ['/etc/countersign/witnesses.policy'] },
  ),
  quorum: integer('How many witnesses must have signed a checkpoint for it to count as witnessed.', {
    range: [1, 32],
    examples: [2],
  }),
  every: span('smhd', 'The least time between two requests for signatures, in s, m, h or d.', {
    default: '1m',
  }),
  members: list(MEMBER, 'The witnesses, each with its own key.', { minItems: 1, maxItems: 32 }),
})

const STAMPS = keys({
  url: text('Where requests are posted to. Responses are signed, so http is enough.', {
    required: true,
    examples: ['http://tsa.example.com/'],
  }),
  every: span('smhd', 'The least time between two stamps, in s, m, h or d.', { default: '1h' }),
  authorityFile: text('PEM: the certificate authorities for the certificate of the stamps.', {
    required: true,
    examples: ['/etc/countersign/tsa-ca.pem'],
  }),
  caFile: text(
    'PEM: the authorities that may have issued the certificate of an https URL. Default: those that Node knows.',
    { examples: ['/run/tls/tsa-web-ca.pem'] },
  ),
  policy: anyText(
    'Object identifier of the policy that stamps must have. Default: the one that the authority chooses.',
    { pattern: '^[0-2](\\.(0|[1-9][0-9]{0,14})){1,20}$', examples: ['1.3.6.1.4.1.4146.2.3'] },
  ),
})

const AUDIT = keys({
  file: text('NDJSON file, relative to the working directory; `-` is standard output.', {
    env: 'GATEWAY_AUDIT_FILE',
    restart: true,
    default: 'data/audit.ndjson',
    examples: ['data/audit.ndjson', '-'],
  }),
  durability: choice(
    ['written', 'synced', 'buffered'],
    'Where a record must be before its request or response goes on: handed to the operating system (`written`), on the disk (`synced`), or in memory (`buffered`).',
    { env: 'GATEWAY_AUDIT_DURABILITY', restart: true, default: 'written' },
  ),
  seals: choice(
    ['on', 'off'],
    '`on`: a signed Merkle tree over all records, stored beside the file, shows any change. Standard output is not sealed.',
    { env: 'GATEWAY_AUDIT_SEALS', restart: true, default: 'on' },
  ),
  sealKeyFile: text(
    'PEM: the Ed25519 private key that signs the seals. Default: `audit-seal-key.pem` in the data directory, made at the first start.',
    { env: 'GATEWAY_AUDIT_SEAL_KEY', restart: true, examples: ['/run/secrets/audit-seal-key.pem'] },
  ),
  secondSealKey: choice(
    ['ml-dsa-44'],
    'A second key, ML-DSA-44 (FIPS 204), signs the seals too. If `sealKeyFile` is set, make this key by `countersign audit key --second`.',
    { restart: true },
  ),
  origin: anyText(
    "Name of this gateway's log in its seals, without spaces and +, different for each gateway. Default: `countersign/` and the first 16 hexadecimal digits of the hash of its public key.",
    {
      restart: true,
      pattern: '^[!-*,-~]{1,200}$',
      patternErrorMessage:
        'must be a name of 1 to 200 ASCII characters without spaces and +, such as audit.example.com/gateway-1',
      examples: ['audit.example.com/gateway-1'],
    },
  ),
  rotation: key(
    ROTATION,
    'When the gateway renames the audit file to `<file>.<UTC>` and begins a new one. If another program renames the file, send SIGHUP to begin a new one. Default: never.',
    { examples: [{ maxBytes: 268_435_456, maxAge: '1d' }] },
  ),
  retention: key(
    RETENTION,
    'When the gateway removes closed audit files, oldest first, with the tiles (parts of the Merkle tree) that only they need. In a sealed trail, files not yet sealed stay; with `ship`, also files not yet copied. Default: never.',
  ),
  ship: key(
    SHIP,
    'Where closed audit files, tiles and checkpoint are copied to, with unchanged names: a directory or a bucket. Default: nowhere.',
    { examples: [{ directory: '/mnt/evidence' }] },
  ),
  witnesses: key(
    WITNESSES,
    'Witnesses: others who sign the checkpoints of the seals, after a proof that the log only grew (C2SP tlog-witness). Default: nobody.',
    { restart: true, examples: [{ policyFile: '/etc/countersign/witnesses.policy' }] },
  ),
  stamps: key(
    STAMPS,
    'A time-stamping authority, which signs that a checkpoint of the seals existed at a time (RFC 3161). Default: nobody.',
    { restart: true },
  ),
})

export const AUDIT_KEYS = {
  audit: key(AUDIT, 'The audit trail, with two records for each request. More in docs/verify/audit.md.', {
    default: {},
    examples: [{ file: 'data/audit.ndjson' }],
  }),
}
