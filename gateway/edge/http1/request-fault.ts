import type { RefusalCode } from '../../refusals.ts'

/** Why a request, or the transfer of its response, cannot be completed. */
export interface RequestFault {
  readonly code: RefusalCode
  /** For the log only. */
  readonly cause: string
}

export const HEAD_LATE: RequestFault = { code: 'request_timeout', cause: 'its head did not come in time' }
export const BODY_LATE: RequestFault = {
  code: 'request_timeout',
  cause: 'its body came too slowly, or not at all',
}
export const NOT_TAKEN: RequestFault = {
  code: 'response_timeout',
  cause: 'the client took nothing of its response',
}
export const CLIENT_GONE: RequestFault = {
  code: 'malformed_request',
  cause: 'the client ended in its middle',
}
