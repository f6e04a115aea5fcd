/** From a worker to the main thread. */
export type Report<Answer> =
  /** It serves requests. */
  | { readonly type: 'serving' }
  /** To `ask`. */
  | { readonly type: 'answer'; readonly id: number; readonly answer: Answer }

/** From the main thread to a worker; what else there is is up to those who use it. */
export type Question = { readonly type: 'ask'; readonly id: number }
