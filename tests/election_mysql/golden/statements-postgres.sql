-- the tables
CREATE TABLE IF NOT EXISTS distribute_lock (
    data_center varchar(128) NOT NULL,
    lock_name varchar(128) NOT NULL,
    owner varchar(255) NOT NULL,
    duration bigint NOT NULL,
    term bigint NOT NULL,
    term_duration bigint NOT NULL,
    gmt_create timestamptz NOT NULL,
    gmt_modified timestamptz NOT NULL,
    PRIMARY KEY (data_center, lock_name)
);
CREATE TABLE IF NOT EXISTS slotreeve_meta_state (
    data_center varchar(128) NOT NULL,
    lock_name varchar(128) NOT NULL,
    state_key bytea NOT NULL,
    state_value bytea NOT NULL,
    version bigint NOT NULL,
    term bigint NOT NULL,
    revision bigint NOT NULL,
    gmt_modified timestamptz NOT NULL,
    PRIMARY KEY (data_center, lock_name, state_key),
    UNIQUE (data_center, lock_name, revision)
);

-- a session, 1 s for a lock, 5 s idle
default_transaction_isolation=read\ committed;
lock_timeout=1000;
idle_in_transaction_session_timeout=1000;
idle_session_timeout=5000;

-- which server it is
SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_control_system()),
    CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END;

-- check reading
SELECT owner, duration, term, term_duration FROM distribute_lock WHERE 1 = 0;
SELECT state_value, version, term, revision FROM slotreeve_meta_state WHERE 1 = 0;

-- check writing
UPDATE distribute_lock SET owner = owner WHERE 1 = 0;
INSERT INTO distribute_lock SELECT * FROM distribute_lock WHERE 1 = 0;
UPDATE slotreeve_meta_state SET state_key = state_key WHERE 1 = 0;
INSERT INTO slotreeve_meta_state SELECT * FROM slotreeve_meta_state WHERE 1 = 0;

-- look
SELECT owner, term, term_duration, ceil(extract(epoch FROM gmt_modified - clock_timestamp()) * 1000 + duration)::bigint, (SELECT revision FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > 0 ORDER BY revision DESC LIMIT 1), (SELECT term FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > 0 ORDER BY revision DESC LIMIT 1), (SELECT state_value FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND state_key = %s) FROM distribute_lock WHERE data_center = %s AND lock_name = %s;
--   'here', 'META-MASTER', 'here', 'META-MASTER', 'here', 'META-MASTER', b'\x00history', 'here', 'META-MASTER'

-- insert
INSERT INTO distribute_lock (data_center, lock_name, owner, duration, term, term_duration, gmt_create, gmt_modified) VALUES (%s, %s, '', %s, %s, 0, clock_timestamp(), clock_timestamp()) ON CONFLICT DO NOTHING;
--   'here', 'META-MASTER', 5000, 3

-- take over
UPDATE distribute_lock SET owner = %s, duration = %s, term = %s, term_duration = 0, gmt_modified = clock_timestamp() WHERE data_center = %s AND lock_name = %s AND owner = %s AND term = %s AND term_duration = %s AND (ceil(extract(epoch FROM gmt_modified - clock_timestamp()) * 1000 + duration)::bigint <= 0 OR owner = %s);
--   'new#2', 5000, 4, 'here', 'META-MASTER', 'old#1', 3, 7, '>new'

-- renew
UPDATE distribute_lock SET term_duration = term_duration + 1, gmt_modified = clock_timestamp() WHERE data_center = %s AND lock_name = %s AND owner = %s AND term = %s AND term_duration = %s AND ceil(extract(epoch FROM gmt_modified - clock_timestamp()) * 1000 + duration)::bigint > 0;
--   'here', 'META-MASTER', 'new#2', 4, 8
SELECT (SELECT revision FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > 0 ORDER BY revision DESC LIMIT 1), (SELECT term FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > 0 ORDER BY revision DESC LIMIT 1);
--   'here', 'META-MASTER', 'here', 'META-MASTER'

-- release
UPDATE distribute_lock SET owner = '', duration = 0, gmt_modified = clock_timestamp() WHERE data_center = %s AND lock_name = %s AND owner = %s AND term = %s;
--   'here', 'META-MASTER', 'new#2', 4

-- release, kept for a node
UPDATE distribute_lock SET owner = %s, duration = %s, gmt_modified = clock_timestamp() WHERE data_center = %s AND lock_name = %s AND owner = %s AND term = %s;
--   '>next', 3000, 'here', 'META-MASTER', 'new#2', 4

-- release of a dead owner
UPDATE distribute_lock SET owner = '', duration = 0, gmt_modified = clock_timestamp() WHERE data_center = %s AND lock_name = %s AND owner = %s AND term = %s AND term_duration = %s;
--   'here', 'META-MASTER', 'old#1', 3, 7

-- highest term
SELECT COALESCE(MAX(term), 0) FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s;
--   'here', 'META-MASTER'

-- index
SELECT revision, state_key, version, term, OCTET_LENGTH(state_value) FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision >= %s AND revision > 0 ORDER BY revision;
--   'here', 'META-MASTER', 17

-- index, once the row is free
BEGIN;
SELECT owner FROM distribute_lock WHERE data_center = %s AND lock_name = %s FOR UPDATE;
--   'here', 'META-MASTER'
SELECT revision, state_key, version, term, OCTET_LENGTH(state_value) FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision >= %s AND revision > 0 ORDER BY revision;
--   'here', 'META-MASTER', 17
ROLLBACK;

-- a page
SELECT revision, state_key, state_value, version, term FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > %s AND revision <= %s ORDER BY revision;
--   'here', 'META-MASTER', 17, 23

-- the last page
SELECT revision, state_key, state_value, version, term FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > %s ORDER BY revision;
--   'here', 'META-MASTER', 23

-- a write: hold the row
BEGIN;
SELECT owner, term FROM distribute_lock WHERE data_center = %s AND lock_name = %s FOR UPDATE;
--   'here', 'META-MASTER'
SELECT (SELECT revision FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > 0 ORDER BY revision DESC LIMIT 1), (SELECT term FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND revision > 0 ORDER BY revision DESC LIMIT 1);
--   'here', 'META-MASTER', 'here', 'META-MASTER'
SELECT version FROM slotreeve_meta_state WHERE data_center = %s AND lock_name = %s AND state_key = %s FOR UPDATE;
--   'here', 'META-MASTER', b'view'

-- a write: a new key
INSERT INTO slotreeve_meta_state (data_center, lock_name, state_key, state_value, version, term, revision, gmt_modified) VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp());
--   'here', 'META-MASTER', b'view', b'one', 1, 4, 24
COMMIT;

-- a write: a key that is there
UPDATE slotreeve_meta_state SET state_value = %s, version = %s, term = %s, revision = %s, gmt_modified = clock_timestamp() WHERE data_center = %s AND lock_name = %s AND state_key = %s;
--   b'two', 2, 4, 25, 'here', 'META-MASTER', b'view'
COMMIT;

-- a write: refused
ROLLBACK;

-- name the history
INSERT INTO slotreeve_meta_state (data_center, lock_name, state_key, state_value, version, term, revision, gmt_modified) VALUES (%s, %s, %s, %s, 1, 0, 0, clock_timestamp()) ON CONFLICT DO NOTHING;
--   'here', 'META-MASTER', b'\x00history', b'accepted'
UPDATE slotreeve_meta_state SET state_value = %s, gmt_modified = clock_timestamp() WHERE data_center = %s AND lock_name = %s AND state_key = %s;
--   b'accepted', 'here', 'META-MASTER', b'\x00history'
