import type { IncomingMessage, ServerResponse } from 'node:http'

/** Who may ask for a path of the admin listener. See `admin-guard.ts`. */
export type AdminAccess =
  /** Anyone, under any name: for load balancers and orchestrators. */
  | 'anyone'
  /** Any browser that knows the listener by one of its names: pages that say nothing about this gateway. */
  | 'page'
  | 'operator'

export interface AdminResponse {
  readonly status: number
  readonly contentType: string
  /** A function writes the body itself, for as long as it likes. */
  readonly body: string | Buffer | ((res: ServerResponse) => void)
  /** Further fields: name, value, name, value. */
  readonly headers?: readonly string[] | undefined
}

export interface AdminRoute {
  readonly path: string
  /** `GET` responds to HEAD as well. */
  readonly method: 'GET' | 'POST'
  readonly access: AdminAccess
  /** A rejection or an exception becomes 500. */
  readonly respond: (req: IncomingMessage) => AdminResponse | Promise<AdminResponse>
}

export function text(status: number, body: string, headers?: readonly string[]): AdminResponse {
  return { status, contentType: 'text/plain; charset=utf-8', body, headers }
}
