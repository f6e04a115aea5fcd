export const signInAndGrantsSchema = `
-- When an attempt with this key last succeeded.
ALTER TABLE sign_in_attempts ADD COLUMN succeeded_at timestamptz;

-- Of a grant: when its last access token expires. Access tokens themselves are not stored.
ALTER TABLE oauth_artifacts ADD COLUMN tokens_until timestamptz;
-- The tokens of earlier grants expire within 10 minutes.
UPDATE oauth_artifacts SET tokens_until = now() + interval '10 minutes' WHERE model = 'Grant';
`
