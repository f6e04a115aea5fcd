import type { Command } from './command.ts'

interface Listed {
  readonly summary: string
  /** Loads only the command asked for: the health probe must be quick. */
  readonly load: () => Promise<{ readonly command: Command }>
}

export const COMMANDS: Readonly<Record<string, Listed>> = {
  init: { summary: 'writes a configuration for your service', load: () => import('./init.ts') },
  run: { summary: 'starts the gateway', load: () => import('./run.ts') },
  validate: {
    summary: 'checks the configuration, and compares it with a running gateway',
    load: () => import('./validate.ts'),
  },
  'config show': {
    summary: 'shows each value in force, and where it comes from',
    load: () => import('./config-show.ts'),
  },
  'explain route': {
    summary: 'says which route lets a request through, and why no other',
    load: () => import('./explain/explain-route.ts'),
  },
  'explain limit': {
    summary: 'says which limit counts a request, and why no other',
    load: () => import('./explain/explain-limit.ts'),
  },
  'explain token': {
    summary: 'says which checks an access token passes or fails, and why',
    load: () => import('./explain/explain-token.ts'),
  },
  health: {
    summary: 'asks a running gateway whether it should get traffic',
    load: () => import('./health.ts'),
  },
  reload: { summary: 'makes a running gateway read its files now', load: () => import('./reload.ts') },
  restart: { summary: 'replaces a running gateway by a new process', load: () => import('./restart.ts') },
  completion: {
    summary: 'prints a script that completes commands in your shell',
    load: () => import('./completion.ts'),
  },
  'certs demo': {
    summary: 'makes throw-away certificates to try mutual TLS with',
    load: () => import('./certs-demo.ts'),
  },
  'keys rotate': {
    summary: 'replaces the signing keys of the demo backend',
    load: () => import('./keys-rotate.ts'),
  },
  'idempotency show': {
    summary: 'shows the outcome of a request with an idempotency key',
    load: () => import('./idempotency-show.ts'),
  },
  'audit verify': {
    summary: 'proves by its seals that nobody has changed the audit trail',
    load: () => import('./audit/verify-seals.ts'),
  },
  'audit prove': {
    summary: 'writes a self-contained proof of the records of one request',
    load: () => import('./audit/prove.ts'),
  },
  'audit find': {
    summary: 'prints records of the audit trail, by id, caller, status or time',
    load: () => import('./audit/find.ts'),
  },
  'audit pseudonym': {
    summary: 'prints the pseudonym of a masked value in the audit trail',
    load: () => import('./audit/pseudonym.ts'),
  },
  'audit report': {
    summary: 'summarizes a day of the audit trail, and says what somebody must look at',
    load: () => import('./audit/report.ts'),
  },
  'audit key': {
    summary: 'makes a key that seals the audit trail, and prints its verifier key',
    load: () => import('./audit/key.ts'),
  },
  'audit export': {
    summary: 'writes a sealed trail for other verifiers',
    load: () => import('./audit/export.ts'),
  },
}
