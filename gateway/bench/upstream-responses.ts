/** Length of the body with which the upstream responds on every path but one. */
export const RESPONSE_BYTES = 120
/** The path with the large response. */
export const LARGE_PATH = '/api/data'
export const LARGE_RESPONSE_BYTES = 64 * 1024
