/** Constraints and triggers forbid overdrafts, unbalanced transfers and changes of the ledger. */
export const initialSchema = `
CREATE TABLE users (
  id uuid PRIMARY KEY,
  -- Null once the user was deleted: the row stays for the ledger, the person does not.
  name text,
  email text,
  email_key text UNIQUE,
  password_hash text,
  role text NOT NULL CHECK (role IN ('user', 'operator')),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz,
  CHECK ((deleted_at IS NULL) = (name IS NOT NULL AND email IS NOT NULL AND email_key IS NOT NULL))
);

CREATE TABLE accounts (
  id uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('customer', 'equity')),
  owner_id uuid REFERENCES users (id),
  currency char(3) NOT NULL,
  balance_minor bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  closed_at timestamptz,
  UNIQUE (owner_id, currency),
  CHECK ((kind = 'customer') = (owner_id IS NOT NULL)),
  CHECK (kind = 'equity' OR balance_minor >= 0),
  CHECK (closed_at IS NULL OR balance_minor = 0)
);
-- The counterpart of every opening and closing; the only account that may go below zero.
CREATE UNIQUE INDEX accounts_one_equity_per_currency ON accounts (currency) WHERE kind = 'equity';

CREATE TABLE transfers (
  id uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('transfer', 'opening', 'closing')),
  from_account_id uuid NOT NULL REFERENCES accounts (id),
  to_account_id uuid NOT NULL REFERENCES accounts (id),
  amount_minor bigint NOT NULL CHECK (amount_minor > 0),
  currency char(3) NOT NULL,
  reference text,
  created_at timestamptz NOT NULL,
  CHECK (from_account_id <> to_account_id)
);

CREATE TABLE ledger_entries (
  transfer_id uuid NOT NULL REFERENCES transfers (id),
  account_id uuid NOT NULL REFERENCES accounts (id),
  amount_minor bigint NOT NULL CHECK (amount_minor <> 0),
  PRIMARY KEY (transfer_id, account_id)
);
CREATE INDEX ledger_entries_by_account ON ledger_entries (account_id);

CREATE FUNCTION refuse_unbalanced_transfer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT sum(amount_minor) FROM ledger_entries WHERE transfer_id = NEW.transfer_id) <> 0 THEN
    RAISE EXCEPTION 'entries of transfer % do not sum to zero', NEW.transfer_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER ledger_entries_balance AFTER INSERT ON ledger_entries
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_unbalanced_transfer();

CREATE FUNCTION refuse_change_of_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_ledger();
CREATE TRIGGER transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transfers
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_ledger();

CREATE TABLE idempotency_keys (
  caller text NOT NULL,
  path text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  status integer NOT NULL,
  body text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (caller, path, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE TABLE sessions (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id),
  created_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE refresh_tokens (
  hash text PRIMARY KEY,
  session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  issued_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  consumed_at timestamptz
);
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (session_id);
CREATE INDEX refresh_tokens_by_expiry ON refresh_tokens (expires_at);

-- Several keys live side by side while they rotate: a key signs from signs_from until signs_until, and stays
-- published until published_until so that what it signed can still be verified. Null means no end.
CREATE TABLE signing_keys (
  kid text PRIMARY KEY,
  algorithm text NOT NULL,
  public_jwk jsonb NOT NULL,
  private_jwk jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  signs_from timestamptz NOT NULL,
  signs_until timestamptz,
  published_until timestamptz
);

-- Nothing of the document itself is kept.
CREATE TABLE verifications (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id),
  status text NOT NULL CHECK (status IN ('verified', 'rejected')),
  created_at timestamptz NOT NULL
);
CREATE INDEX verifications_by_user ON verifications (user_id);
`
