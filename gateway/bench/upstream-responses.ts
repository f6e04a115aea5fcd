/** Length of the body with which the upstream responds on every path but one. */
export const RESPONSE_BYTES = 120
/** The path with the large response. */
export const LARGE_PATH = '/api/data'
export const LARGE_RESPONSE_BYTES = 64 * 1024
/** The path with 1 MiB, in a response or a request. */
export const HUGE_PATH = '/api/archive'
export const HUGE_BYTES = 1024 * 1024
