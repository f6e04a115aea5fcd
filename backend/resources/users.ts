import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, type TSchema, Type } from 'typebox'
import { callerOf, ID_PATTERN, PROFILE_WRITE, requireRecord, requireScope, USERS_ADMIN } from '../caller.ts'
import { hashPassword } from '../identity/passwords.ts'
import { REVOKE_SESSION } from '../identity/revoke-session.ts'
import { admitAttempt } from '../identity/sign-in-throttle.ts'
import { Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'
import { addUser, changeUser, deleteUser, findUser, listUsers, type User } from '../user-store.ts'
import { CurrentPassword, requirePresentPassword, tooManyAttempts } from './present-password.ts'

const PATH = '/api/users'
const DEFAULT_PAGE = 50
const MAX_PAGE = 100

const Name = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: '^[^\\s\\u0000-\\u001f\\u007f]([^\\u0000-\\u001f\\u007f]*[^\\s\\u0000-\\u001f\\u007f])?$',
  description: 'text of one line without spaces around it',
  examples: ['Alice Martin'],
})

export const Email = Type.String({ format: 'email', maxLength: 254, examples: ['alice@example.com'] })

const NewPassword = Type.String({ minLength: 8, maxLength: 1024, examples: ['correct horse battery staple'] })

const UserResponse = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    name: Name,
    email: Type.String({ examples: ['alice@example.com'] }),
    createdAt: Type.String({ format: 'date-time' }),
    updatedAt: Type.String({ format: 'date-time' }),
  },
  { description: 'A user.' },
)

const OneName = {
  oneOf: [{ required: ['name'] }, { required: ['nombre'] }],
  choiceOf: 'name',
  description: 'given once, as name or as nombre',
}

/** Written by hand, because an example made of the required fields alone would have no name. */
const EXAMPLE = { name: 'Alice Martin', email: 'alice@example.com' }

const Names = { name: Type.Optional(Name), nombre: Type.Optional(Name) }

const CreateBody = Type.Object(
  { ...Names, email: Email, password: Type.Optional(NewPassword) },
  { additionalProperties: false, ...OneName, examples: [EXAMPLE] },
)

const Proof = { currentPassword: Type.Optional(CurrentPassword) }

const ReplaceBody = Type.Object(
  { ...Names, email: Email, ...Proof },
  { additionalProperties: false, ...OneName, examples: [EXAMPLE] },
)

const ChangeBody = Type.Object(
  { ...Names, email: Type.Optional(Email), password: Type.Optional(NewPassword), ...Proof },
  {
    additionalProperties: false,
    anyOf: ['name', 'nombre', 'email', 'password'].map((field) => ({ required: [field] })),
    choiceOf: 'body',
    description: 'at least one of name (or nombre, not both), email and password',
    not: { required: ['name', 'nombre'] },
    examples: [{ name: EXAMPLE.name }],
  },
)

const LeaveBody = Type.Object(Proof, { additionalProperties: false })

const UserPath = Type.Object({
  id: Type.String({ pattern: ID_PATTERN, description: 'the id of a user (a UUID in lower case)' }),
})

const WHO_MAY =
  `Users reach their own record, from a session or through an application with ${PROFILE_WRITE}; holders of ` +
  `${USERS_ADMIN} reach every record. For any other id the response is 403, whether or not there is such a user.`

const PRESENT_PASSWORD = 'Users who do this to their own record must send currentPassword.'

export function registerUsers(app: App, services: Services): void {
  registerList(app, services)
  registerCreate(app, services)
  registerRead(app, services)
  registerChange(app, services, 'PUT', ReplaceBody, 'Replace name and e-mail address')
  registerChange(app, services, 'PATCH', ChangeBody, 'Change some fields of a user')
  registerDelete(app, services)
}

const ListQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE })),
    after: Type.Optional(
      Type.String({ pattern: ID_PATTERN, description: 'the id of the last user of the page before' }),
    ),
  },
  { additionalProperties: false },
)

function registerList(app: App, { database }: Services): void {
  const description = 'One page of users. The Link header names the next page, if there is one.'
  const schema = {
    operationId: 'listUsers',
    summary: 'List users, oldest first',
    tags: ['users'],
    security: [{ bearer: [USERS_ADMIN] }],
    querystring: ListQuery,
    response: { 200: Type.Array(UserResponse, { description }), ...problemResponses(401, 403) },
  }
  app.get(PATH, { schema }, async (request, reply) => {
    requireScope(request, USERS_ADMIN)
    const { limit = DEFAULT_PAGE, after } = request.query
    const found = await listUsers(database, limit + 1, after)
    const users = found.slice(0, limit)
    // RFC 8288.
    if (found.length > limit)
      reply.header('link', `<${PATH}?limit=${limit}&after=${users.at(-1)?.id}>; rel="next"`)
    return users.map(userResponse)
  })
}

function registerCreate(app: App, { database, clock }: Services): void {
  const schema = {
    operationId: 'createUser',
    summary: 'Add a user, with an empty EUR account',
    description: 'A user without a password cannot log in until it has one.',
    tags: ['users'],
    security: [{ bearer: [USERS_ADMIN] }],
    body: CreateBody,
    response: { 201: UserResponse, ...problemResponses(401, 403, 409, 413, 415) },
  }
  app.post(PATH, { schema }, async (request, reply) => {
    requireScope(request, USERS_ADMIN)
    const { name, nombre, email, password } = request.body
    const passwordHash = password === undefined ? undefined : await hashPassword(password)
    const user = { name: name ?? nombre ?? '', email, passwordHash, role: 'user' as const }
    const added = await database.transaction((transaction) => addUser(transaction, user, clock()))
    if (added === 'email_taken') throw new Problem('email_taken')
    return reply.code(201).header('location', `${PATH}/${added.user.id}`).send(userResponse(added.user))
  })
}

function registerRead(app: App, { database }: Services): void {
  const schema = {
    operationId: 'getUser',
    summary: 'One user',
    description: WHO_MAY,
    tags: ['users'],
    security: [{ bearer: [] }],
    params: UserPath,
    response: { 200: UserResponse, ...problemResponses(401, 403, 404) },
  }
  app.get(`${PATH}/:id`, { schema }, async (request) => {
    const user = await findUser(database, reachableId(request))
    if (user === undefined) throw new Problem('not_found')
    return userResponse(user)
  })
}

function registerChange(
  app: App,
  services: Services,
  method: 'PUT' | 'PATCH',
  body: TSchema,
  summary: string,
): void {
  const { database, clock } = services
  const schema = {
    operationId: method === 'PUT' ? 'replaceUser' : 'changeUser',
    summary,
    description:
      'A new password ends every other session of the user and every other grant to applications. A new password ' +
      `or e-mail address needs a proof. ${PRESENT_PASSWORD} Users go on signing in with the address that an operator ` +
      `wrote last, because nobody has confirmed the new one. ${WHO_MAY}`,
    tags: ['users'],
    security: [{ bearer: [] }],
    params: UserPath,
    body,
    response: { 200: UserResponse, ...problemResponses(401, 403, 404, 409, 413, 415) },
  }
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    const id = reachableId(request)
    const { currentPassword, name, nombre, email, password } = request.body as Static<typeof ChangeBody>
    const user = await findUser(database, id)
    if (user === undefined) throw new Problem('not_found')
    const changesEmail = email !== undefined && email !== user.email
    const provenHash =
      password !== undefined || changesEmail
        ? await requirePresentPassword(services, request, id, currentPassword)
        : undefined
    const { subject, session, scopes } = callerOf(request)
    // An operator's own sign-in address changes only with a proven password, for which only a request with a new address
    // or password is asked.
    const mayMove = scopes.has(USERS_ADMIN) && (subject !== id || provenHash !== undefined)
    const signInEmail = mayMove ? email : undefined
    if (changesEmail && signInEmail === undefined) {
      const admission = await admitAttempt(database, `e-mail address of ${id}`, clock())
      if (admission.outcome === 'wait') throw tooManyAttempts(admission.retryAfterSeconds)
    }
    const passwordHash = password === undefined ? undefined : await hashPassword(password)
    const changed = await changeUser(
      database,
      { id, keepSession: subject === id ? session : undefined, provenHash },
      { name: name ?? nombre, email: changesEmail ? email : undefined, signInEmail, passwordHash },
      clock(),
    )
    if (changed === undefined) throw goneBecause(provenHash)
    if (changed === 'email_taken') throw new Problem('email_taken')
    revokeAtGateway(reply, changed.endedSessions)
    return userResponse(changed.user)
  }
  app.route({ method, url: `${PATH}/:id`, schema, handler })
}

/** The problem when a user who existed a moment ago was not changed. */
function goneBecause(provenHash: string | undefined): Problem {
  return new Problem(provenHash === undefined ? 'not_found' : 'wrong_password')
}

function registerDelete(app: App, services: Services): void {
  const schema = {
    operationId: 'deleteUser',
    summary: 'Delete a user',
    description:
      'Erases name, e-mail address and password, closes the account (what is left on it is paid out) and ends ' +
      `every session. The entries of the ledger stay. ${PRESENT_PASSWORD} ${WHO_MAY}`,
    tags: ['users'],
    security: [{ bearer: [] }],
    params: UserPath,
    body: LeaveBody,
    response: { 204: Type.Null({ description: 'Deleted.' }), ...problemResponses(401, 403, 404, 413, 415) },
  }
  // Deleting another user needs no body.
  const preValidation = async (request: FastifyRequest) => {
    request.body ??= {}
  }
  app.delete(`${PATH}/:id`, { schema, preValidation }, async (request, reply) => {
    const id = reachableId(request)
    const provenHash = await requirePresentPassword(services, request, id, request.body.currentPassword)
    const ended = await deleteUser(services.database, { id, provenHash }, services.clock())
    if (ended === undefined) throw goneBecause(provenHash)
    revokeAtGateway(reply, ended)
    return reply.code(204).send(null)
  })
}

/** Returns the id in the path; throws when the caller may not reach it. */
function reachableId(request: FastifyRequest): string {
  const { id } = request.params as Static<typeof UserPath>
  requireRecord(request, id)
  return id
}

function revokeAtGateway(reply: FastifyReply, sessions: readonly string[]): void {
  if (sessions.length > 0) reply.header(REVOKE_SESSION, [...sessions])
}

function userResponse(user: User): Static<typeof UserResponse> {
  return { ...user, createdAt: user.createdAt.toISOString(), updatedAt: user.updatedAt.toISOString() }
}
