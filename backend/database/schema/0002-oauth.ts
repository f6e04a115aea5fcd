export const oauthSchema = `
-- Codes, tokens, grants, sign-ins under way: one row each, found by the SHA-256 of the id. The id is never stored.
CREATE TABLE oauth_artifacts (
  model text NOT NULL,
  id_hash text NOT NULL,
  -- Text and not jsonb: a caller may put U+0000 into a parameter, and jsonb refuses that.
  payload text NOT NULL,
  grant_id text,
  account_id uuid,
  uid text,
  consumed_at timestamptz,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (model, id_hash)
);
CREATE INDEX oauth_artifacts_by_grant ON oauth_artifacts (grant_id) WHERE grant_id IS NOT NULL;
CREATE INDEX oauth_artifacts_by_account ON oauth_artifacts (account_id) WHERE account_id IS NOT NULL;
CREATE INDEX oauth_artifacts_by_uid ON oauth_artifacts (uid) WHERE uid IS NOT NULL;
CREATE INDEX oauth_artifacts_by_expiry ON oauth_artifacts (expires_at);

CREATE TABLE sign_in_attempts (
  key text PRIMARY KEY,
  failures integer NOT NULL,
  last_at timestamptz NOT NULL,
  next_at timestamptz NOT NULL
);
CREATE INDEX sign_in_attempts_by_age ON sign_in_attempts (last_at);

CREATE TABLE server_secrets (
  name text PRIMARY KEY,
  value bytea NOT NULL
);

CREATE TABLE webhooks (
  id uuid PRIMARY KEY,
  client text NOT NULL,
  source text NOT NULL,
  webhook_id text NOT NULL,
  content_type text,
  body bytea NOT NULL,
  received_at timestamptz NOT NULL,
  UNIQUE (client, source, webhook_id)
);
`
