/** Length of the body with which the upstream answers every path but one. */
export const ANSWER_BYTES = 120
/** The path that is answered with much. */
export const LARGE_PATH = '/api/data'
export const LARGE_ANSWER_BYTES = 64 * 1024
