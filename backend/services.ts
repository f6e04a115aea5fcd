import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ClientMetadata } from 'oidc-provider'
import type { Database } from './database/database.ts'
import type { Environment } from './environment.ts'
import type { SigningKeys } from './identity/keys.ts'
import type { ServerSecrets } from './identity/secrets.ts'

/** `publicUrl` is the issuer of tokens and the base of links. */
export interface Services extends Pick<Environment, 'publicUrl' | 'mtlsUrl' | 'webhookClientMaxBytes'> {
  readonly database: Database
  readonly keys: SigningKeys
  readonly secrets: ServerSecrets
  readonly clients: readonly ClientMetadata[]
  /** The gateway's secret. When it is undefined, every caller is taken for the gateway. */
  readonly gatewaySecret: string | undefined
  readonly clock: () => Date
}

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>
