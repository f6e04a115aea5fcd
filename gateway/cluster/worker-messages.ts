/** Messages from a worker to the main thread. */
export type Report<Answer> =
  /** It serves requests now. */
  | { readonly type: 'serving' }
  /** The answer to `ask`. */
  | { readonly type: 'answer'; readonly id: number; readonly answer: Answer }

/** The one message to a worker that the pool itself sends. */
export type Question = { readonly type: 'ask'; readonly id: number }
