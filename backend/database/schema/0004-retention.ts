export const retentionSchema = `
CREATE INDEX webhooks_by_age ON webhooks (received_at);
CREATE INDEX users_by_deletion ON users (deleted_at) WHERE deleted_at IS NOT NULL;

-- Triggers keep this table right, whoever adds or deletes webhooks. A webhook counts as its body and a kilobyte more.
CREATE TABLE webhook_usage (
  client text PRIMARY KEY,
  bytes bigint NOT NULL
);
INSERT INTO webhook_usage (client, bytes)
  SELECT client, sum(octet_length(body) + 1024) FROM webhooks GROUP BY client;

CREATE FUNCTION count_added_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO webhook_usage AS usage (client, bytes)
    SELECT client, sum(octet_length(body) + 1024) FROM added GROUP BY client ORDER BY client
    ON CONFLICT (client) DO UPDATE SET bytes = usage.bytes + excluded.bytes;
  RETURN NULL;
END $$;
CREATE TRIGGER webhooks_added AFTER INSERT ON webhooks REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION count_added_webhooks();

CREATE FUNCTION count_deleted_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE webhook_usage SET bytes = webhook_usage.bytes - gone.bytes
    FROM (SELECT client, sum(octet_length(body) + 1024) AS bytes FROM deleted GROUP BY client) AS gone
    WHERE webhook_usage.client = gone.client;
  RETURN NULL;
END $$;
CREATE TRIGGER webhooks_deleted AFTER DELETE ON webhooks REFERENCING OLD TABLE AS deleted
  FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_webhooks();

CREATE FUNCTION forget_webhook_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM webhook_usage;
  RETURN NULL;
END $$;
CREATE TRIGGER webhooks_truncated AFTER TRUNCATE ON webhooks
  FOR EACH STATEMENT EXECUTE FUNCTION forget_webhook_usage();
`
