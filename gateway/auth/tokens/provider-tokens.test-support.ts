import { AUDIENCE, type Members, NOW_SECONDS } from './issuer.test-support.ts'

/** A token as a provider writes it; `typ` null: its header has none. */
export interface ProviderToken {
  readonly what: string
  readonly preset: 'entra' | 'okta' | 'auth0' | 'cognito' | 'keycloak' | 'ping'
  readonly typ: string | null
  readonly claims: Members
}

export interface AccessToken extends ProviderToken {
  /** Undefined: for no user. */
  readonly subject: string | undefined
  readonly client: string
  readonly scope: string
}

const LIFE = { iat: NOW_SECONDS - 60, exp: NOW_SECONDS + 3600 }
const OID = '11111111-1111-4111-8111-111111111111'
const SERVICE = '99999999-9999-4999-8999-999999999999'
const ENTRA = {
  ...LIFE,
  aud: AUDIENCE,
  aio: 'E2Zg',
  tid: '22222222-2222-4222-8222-222222222222',
  rh: '0.A',
  uti: 'u1',
}
const OKTA = { ...LIFE, ver: 1, iss: 'https://id.example/oauth2/default', aud: AUDIENCE }
const AUTH0 = { ...LIFE, iss: 'https://tenant.eu.auth0.com/' }
const BOTH = [AUDIENCE, 'https://tenant.eu.auth0.com/userinfo']
const COGNITO = {
  ...LIFE,
  iss: 'https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_example',
  sub: 'aaaa-bbbb',
  jti: 'c1',
}
const KEYCLOAK = {
  ...LIFE,
  jti: 'k1',
  iss: 'https://id.example/realms/bank',
  aud: [AUDIENCE, 'account'],
  acr: '1',
}
const PING = {
  ...LIFE,
  iss: 'https://auth.pingone.com/ENV/as',
  aud: [AUDIENCE],
  jti: 'p1',
  env: 'ENV',
  org: 'ORG',
}

/** Access tokens of each provider, as its reference shows them. */
export const ACCESS_TOKENS: readonly AccessToken[] = [
  {
    what: 'Entra v1 for a user',
    preset: 'entra',
    typ: 'JWT',
    claims: {
      ...ENTRA,
      iss: 'https://sts.windows.net/22222222-2222-4222-8222-222222222222/',
      appid: 'app-1',
      appidacr: '1',
      oid: OID,
      sub: 'pairwise-1',
      scp: 'payments.read payments.write',
      ver: '1.0',
    },
    subject: OID,
    client: 'app-1',
    scope: 'payments.read payments.write',
  },
  {
    what: 'Entra v1 for an app',
    preset: 'entra',
    typ: 'JWT',
    claims: {
      ...ENTRA,
      iss: 'https://sts.windows.net/22222222-2222-4222-8222-222222222222/',
      appid: 'app-1',
      appidacr: '1',
      idtyp: 'app',
      oid: SERVICE,
      sub: SERVICE,
      roles: ['payments.read'],
      ver: '1.0',
    },
    subject: undefined,
    client: 'app-1',
    scope: 'payments.read',
  },
  {
    what: 'Entra v2 for a user who has a role',
    preset: 'entra',
    typ: 'JWT',
    claims: {
      ...ENTRA,
      iss: 'https://login.microsoftonline.com/22222222-2222-4222-8222-222222222222/v2.0',
      azp: 'app-1',
      azpacr: '1',
      oid: OID,
      sub: 'pairwise-1',
      scp: 'payments.read',
      roles: ['approver'],
      ver: '2.0',
    },
    subject: OID,
    client: 'app-1',
    scope: 'payments.read approver',
  },
  {
    what: 'Entra v2 for an app',
    preset: 'entra',
    typ: 'JWT',
    claims: {
      ...ENTRA,
      iss: 'https://login.microsoftonline.com/22222222-2222-4222-8222-222222222222/v2.0',
      azp: 'app-1',
      azpacr: '2',
      idtyp: 'app',
      oid: SERVICE,
      sub: SERVICE,
      roles: ['payments.read', 'payments.write'],
      ver: '2.0',
    },
    subject: undefined,
    client: 'app-1',
    scope: 'payments.read payments.write',
  },
  {
    what: 'Okta for a user',
    preset: 'okta',
    typ: null,
    claims: {
      ...OKTA,
      jti: 'AT.1',
      cid: 'app-1',
      uid: 'user-1',
      scp: ['a', 'offline_access'],
      sub: 'alice@example.com',
    },
    subject: 'alice@example.com',
    client: 'app-1',
    scope: 'a offline_access',
  },
  {
    what: 'Okta for a service',
    preset: 'okta',
    typ: null,
    claims: { ...OKTA, jti: 'AT.2', cid: 'app-1', scp: ['a'], sub: 'app-1' },
    subject: undefined,
    client: 'app-1',
    scope: 'a',
  },
  {
    what: 'Auth0 in its own profile',
    preset: 'auth0',
    typ: 'JWT',
    claims: { ...AUTH0, sub: 'auth0|1', aud: BOTH, azp: 'app-1', scope: 'openid a', permissions: ['a', 'b'] },
    subject: 'auth0|1',
    client: 'app-1',
    scope: 'openid a b',
  },
  {
    what: 'Auth0 in its own profile for a machine without scopes',
    preset: 'auth0',
    typ: 'JWT',
    claims: { ...AUTH0, sub: 'app-1@clients', aud: AUDIENCE, azp: 'app-1', gty: 'client-credentials' },
    subject: undefined,
    client: 'app-1',
    scope: '',
  },
  {
    what: 'Auth0 in the profile of RFC 9068',
    preset: 'auth0',
    typ: 'at+jwt',
    claims: { ...AUTH0, sub: 'auth0|1', aud: BOTH, client_id: 'app-1', jti: 'j1', scope: 'a' },
    subject: 'auth0|1',
    client: 'app-1',
    scope: 'a',
  },
  {
    what: 'Auth0 in the profile of RFC 9068 for a machine, without gty',
    preset: 'auth0',
    typ: 'at+jwt',
    claims: { ...AUTH0, sub: 'app-1@clients', aud: AUDIENCE, client_id: 'app-1', jti: 'j1', scope: 'a' },
    subject: undefined,
    client: 'app-1',
    scope: 'a',
  },
  {
    what: 'Cognito',
    preset: 'cognito',
    typ: null,
    claims: {
      ...COGNITO,
      client_id: AUDIENCE,
      token_use: 'access',
      scope: 'a',
      username: 'alice',
      version: 2,
    },
    subject: 'aaaa-bbbb',
    client: AUDIENCE,
    scope: 'a',
  },
  {
    what: 'Keycloak for a user, with the nonce of the sign-in',
    preset: 'keycloak',
    typ: 'JWT',
    claims: { ...KEYCLOAK, typ: 'Bearer', sub: 'u-1', azp: 'app-1', sid: 's1', scope: 'email a', nonce: 'n' },
    subject: 'u-1',
    client: 'app-1',
    scope: 'email a',
  },
  {
    what: 'Keycloak for a service account without scopes',
    preset: 'keycloak',
    typ: 'JWT',
    claims: { ...KEYCLOAK, typ: 'Bearer', sub: 'sa-1', azp: 'app-1', client_id: 'app-1', scope: '' },
    subject: 'sa-1',
    client: 'app-1',
    scope: '',
  },
  {
    what: 'Keycloak with the switch for at+jwt',
    preset: 'keycloak',
    typ: 'at+jwt',
    claims: { ...KEYCLOAK, typ: 'Bearer', sub: 'u-1', azp: 'app-1', scope: 'a' },
    subject: 'u-1',
    client: 'app-1',
    scope: 'a',
  },
  {
    what: 'Ping without a type',
    preset: 'ping',
    typ: null,
    claims: { ...PING, sub: 'u-1', client_id: 'app-1', scope: 'a', sid: 's1' },
    subject: 'u-1',
    client: 'app-1',
    scope: 'a',
  },
  {
    what: 'Ping with a type',
    preset: 'ping',
    typ: 'at+jwt',
    claims: { ...PING, sub: 'app-1', client_id: 'app-1', scope: '' },
    subject: undefined,
    client: 'app-1',
    scope: '',
  },
  {
    what: 'Ping for an app, without sub',
    preset: 'ping',
    typ: 'at+jwt',
    claims: { ...PING, client_id: 'app-1', scope: 'a' },
    subject: undefined,
    client: 'app-1',
    scope: 'a',
  },
]

const USER = {
  name: 'Alice',
  preferred_username: 'alice@example.com',
  email: 'alice@example.com',
  auth_time: NOW_SECONDS - 70,
}

/** The most dangerous ID tokens of each provider: API and app are one client there, so the audience is the API. */
export const ID_TOKENS: readonly ProviderToken[] = [
  {
    what: 'Entra v2',
    preset: 'entra',
    typ: 'JWT',
    claims: {
      ...ENTRA,
      ...USER,
      iss: 'https://login.microsoftonline.com/T/v2.0',
      oid: OID,
      sub: 'p',
      ver: '2.0',
      nonce: 'n',
    },
  },
  {
    what: 'Entra v2 for a user who has a role, without nonce',
    preset: 'entra',
    typ: 'JWT',
    claims: {
      ...ENTRA,
      ...USER,
      iss: 'https://login.microsoftonline.com/T/v2.0',
      oid: OID,
      sub: 'p',
      ver: '2.0',
      roles: ['approver'],
    },
  },
  {
    what: 'Entra v1',
    preset: 'entra',
    typ: 'JWT',
    claims: {
      ...ENTRA,
      ...USER,
      iss: 'https://sts.windows.net/T/',
      oid: OID,
      sub: 'p',
      ver: '1.0',
      roles: ['approver'],
      upn: 'a',
    },
  },
  {
    what: 'Okta',
    preset: 'okta',
    typ: null,
    claims: { ...OKTA, ...USER, sub: 'user-1', jti: 'ID.1', amr: ['pwd'], idp: '00o', at_hash: 'h' },
  },
  {
    what: 'Okta without at_hash',
    preset: 'okta',
    typ: null,
    claims: { ...OKTA, ...USER, sub: 'user-1', jti: 'ID.1', amr: ['pwd'], idp: '00o' },
  },
  {
    what: 'Auth0',
    preset: 'auth0',
    typ: 'JWT',
    claims: { ...AUTH0, ...USER, sub: 'auth0|1', aud: AUDIENCE, sid: 's', nonce: 'n' },
  },
  {
    what: 'Auth0 without nonce',
    preset: 'auth0',
    typ: 'JWT',
    claims: { ...AUTH0, ...USER, sub: 'auth0|1', aud: AUDIENCE, azp: AUDIENCE, sid: 's' },
  },
  {
    what: 'Cognito',
    preset: 'cognito',
    typ: null,
    claims: {
      ...COGNITO,
      ...USER,
      aud: AUDIENCE,
      token_use: 'id',
      'cognito:username': 'alice',
      at_hash: 'h',
    },
  },
  {
    what: 'Cognito with an audience claim that somebody added',
    preset: 'cognito',
    typ: null,
    claims: { ...COGNITO, ...USER, aud: AUDIENCE, client_id: AUDIENCE, scope: 'a', token_use: 'id' },
  },
  {
    what: 'Keycloak',
    preset: 'keycloak',
    typ: 'JWT',
    claims: {
      ...KEYCLOAK,
      ...USER,
      aud: AUDIENCE,
      typ: 'ID',
      sub: 'u-1',
      azp: AUDIENCE,
      sid: 's1',
      at_hash: 'h',
      nonce: 'n',
    },
  },
  {
    what: 'Keycloak (its refresh token)',
    preset: 'keycloak',
    typ: 'JWT',
    claims: { ...KEYCLOAK, typ: 'Refresh', sub: 'u-1', azp: 'app-1', scope: 'a' },
  },
  {
    what: 'Ping',
    preset: 'ping',
    typ: null,
    claims: { ...PING, ...USER, sub: 'u-1', amr: ['pwd'], at_hash: 'h', sid: 's1' },
  },
  {
    what: 'Ping without at_hash',
    preset: 'ping',
    typ: null,
    claims: { ...PING, ...USER, sub: 'u-1', amr: ['pwd'], sid: 's1' },
  },
]
