import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify'
import type { ClientMetadata } from 'oidc-provider'
import type { Database } from './database/database.ts'
import type { Environment } from './environment.ts'
import type { SigningKeys } from './identity/keys.ts'
import type { ServerSecrets } from './identity/secrets.ts'

/** The services that all resources share. `publicUrl` is the issuer of the tokens and the base of links. */
export interface Services extends Pick<Environment, 'publicUrl' | 'mtlsUrl' | 'webhookClientMaxBytes'> {
  readonly database: Database
  readonly keys: SigningKeys
  readonly secrets: ServerSecrets
  /** The OAuth clients. */
  readonly clients: readonly ClientMetadata[]
  /** The secret by which the gateway proves itself; undefined: every caller is taken for the gateway. */
  readonly gatewaySecret: string | undefined
  readonly clock: () => Date
}

/** The fastify instance, with types that follow from the route schemas. */
export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>
