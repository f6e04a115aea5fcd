/** When an origin last signed in, for the throttle, and until when a grant's tokens are in force. */
export const signInAndGrantsSchema = `
-- When somebody last signed in from there.
ALTER TABLE sign_in_attempts ADD COLUMN succeeded_at timestamptz;

-- Of a grant: the end of the access token that was issued last. Access tokens themselves are not stored.
ALTER TABLE oauth_artifacts ADD COLUMN tokens_until timestamptz;
-- What was issued before this was known.
UPDATE oauth_artifacts SET tokens_until = now() + interval '10 minutes' WHERE model = 'Grant';
`
