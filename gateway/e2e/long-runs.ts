/** How many times more often random tests run under `npm run test:long`, which sets TEST_LONG. */
export const LONGER = Number(process.env.TEST_LONG ?? '1')
