-- The store, whole. One `memory` table is the common record of all six layers; satellites hang off it.
-- Times are unix seconds (REAL); hashes are blake2b-128 in hex unless said otherwise.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE file (
    path       TEXT PRIMARY KEY,
    size       INTEGER NOT NULL,
    mtime_ns   INTEGER NOT NULL,
    file_hash  TEXT NOT NULL,
    language   TEXT NOT NULL DEFAULT '',
    excluded   TEXT NOT NULL DEFAULT ''         -- why its content keeps it out; empty: it is indexed
) WITHOUT ROWID;

CREATE TABLE memory (
    id             TEXT PRIMARY KEY,
    layer          TEXT NOT NULL CHECK (layer IN ('session', 'project', 'user', 'vector', 'graph', 'governance')),
    kind           TEXT NOT NULL,
    scope          TEXT NOT NULL CHECK (scope IN ('global', 'session', 'workspace', 'repository')),
    status         TEXT NOT NULL CHECK (status IN ('active', 'stale', 'superseded', 'archived')),
    path           TEXT NOT NULL DEFAULT '',
    entity         TEXT NOT NULL DEFAULT '',
    start_line     INTEGER NOT NULL DEFAULT 0,
    end_line       INTEGER NOT NULL DEFAULT 0,
    language       TEXT NOT NULL DEFAULT '',
    content_hash   TEXT NOT NULL,
    text_hash      TEXT NOT NULL,
    tokens         INTEGER NOT NULL,            -- estimated, of what the judge is shown by default
    text_tokens    INTEGER NOT NULL,            -- estimated, of the full text
    updated_at     REAL NOT NULL,
    importance     REAL NOT NULL CHECK (importance BETWEEN 0 AND 1),
    confidence     REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    thread         TEXT NOT NULL DEFAULT '',    -- the working session an exchange belongs to
    key            TEXT NOT NULL DEFAULT '',
    evidence_count INTEGER NOT NULL DEFAULT 1,
    source         TEXT NOT NULL CHECK (source IN ('explicit', 'inferred', 'index', 'import')),
    superseded_by  TEXT NOT NULL DEFAULT '',
    created_at     REAL NOT NULL,
    accessed_at    REAL NOT NULL DEFAULT 0,
    access_count   INTEGER NOT NULL DEFAULT 0,
    title          TEXT NOT NULL,
    attrs          TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(attrs)),
    card           TEXT NOT NULL DEFAULT '',
    text           TEXT NOT NULL
);
CREATE INDEX memory_by_layer ON memory (layer, status, kind);
CREATE INDEX memory_by_path ON memory (path, entity);
CREATE UNIQUE INDEX memory_one_active_by_key ON memory (layer, scope, key) WHERE status = 'active' AND key <> '';

CREATE TABLE evidence (                         -- code that a memory cites
    memory_id  TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    path       TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line   INTEGER NOT NULL,
    span_hash  TEXT NOT NULL,
    PRIMARY KEY (memory_id, path, start_line)
) WITHOUT ROWID;

CREATE TABLE edge (                             -- ends are memory ids (m_) or file ids (f_)
    source   TEXT NOT NULL,
    target   TEXT NOT NULL,
    relation TEXT NOT NULL CHECK (relation IN ('calls', 'imports', 'tests', 'belongs_to', 'references')),
    weight   REAL NOT NULL DEFAULT 1,
    path     TEXT NOT NULL DEFAULT '',          -- the file that states the edge; re-indexing it replaces its edges
    PRIMARY KEY (source, relation, target)
) WITHOUT ROWID;
CREATE INDEX edge_by_target ON edge (target, relation);
CREATE INDEX edge_by_path ON edge (path);

CREATE TABLE mention (                          -- names a file uses and could resolve to other files' entities
    path     TEXT NOT NULL,
    source   TEXT NOT NULL,
    relation TEXT NOT NULL,
    name     TEXT NOT NULL,
    hint     TEXT NOT NULL DEFAULT '',          -- module it was imported from, where the file says so
    PRIMARY KEY (path, source, relation, name, hint)
) WITHOUT ROWID;
CREATE INDEX mention_by_name ON mention (name);

CREATE TABLE vec (                              -- per memory and embedder; `terms-1` is a sparse feature hash
    memory_id TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    embedder  TEXT NOT NULL,
    data      BLOB NOT NULL,
    PRIMARY KEY (memory_id, embedder)           -- memory first: deleting a memory finds its vectors without a scan
) WITHOUT ROWID;

CREATE TABLE slot (                             -- which pack a memory is judged in; kept, so that packs stay byte-stable
    profile   TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    pack      TEXT NOT NULL,
    position  INTEGER NOT NULL,
    PRIMARY KEY (profile, memory_id)
) WITHOUT ROWID;

CREATE TABLE query (                            -- turn key × judge identity × sample -> integer
    id       INTEGER PRIMARY KEY,
    turn_key TEXT NOT NULL,
    judge    TEXT NOT NULL,
    sample   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (turn_key, judge, sample)
);

CREATE TABLE content (                          -- a content hash -> integer; lives as long as a memory or judgment uses it
    id       INTEGER PRIMARY KEY AUTOINCREMENT, -- never dealt twice, so that no judgment can slip to another content
    hash     TEXT NOT NULL UNIQUE,
    memories INTEGER NOT NULL DEFAULT 0 CHECK (memories >= 0)  -- how many memories show it; kept by the triggers below
);
CREATE TRIGGER content_of_new_memory AFTER INSERT ON memory
BEGIN
    INSERT INTO content (hash, memories) VALUES (NEW.content_hash, 1)
        ON CONFLICT (hash) DO UPDATE SET memories = memories + 1;
    INSERT INTO content (hash, memories) SELECT NEW.text_hash, 1 WHERE NEW.text_hash <> NEW.content_hash
        ON CONFLICT (hash) DO UPDATE SET memories = memories + 1;
END;
CREATE TRIGGER content_of_gone_memory AFTER DELETE ON memory
BEGIN
    UPDATE content SET memories = memories - 1 WHERE hash IN (OLD.content_hash, OLD.text_hash);
END;
CREATE TRIGGER content_of_changed_memory AFTER UPDATE OF content_hash, text_hash ON memory
WHEN OLD.content_hash <> NEW.content_hash OR OLD.text_hash <> NEW.text_hash
BEGIN
    UPDATE content SET memories = memories - 1 WHERE hash IN (OLD.content_hash, OLD.text_hash);
    INSERT INTO content (hash, memories) VALUES (NEW.content_hash, 1)
        ON CONFLICT (hash) DO UPDATE SET memories = memories + 1;
    INSERT INTO content (hash, memories) SELECT NEW.text_hash, 1 WHERE NEW.text_hash <> NEW.content_hash
        ON CONFLICT (hash) DO UPDATE SET memories = memories + 1;
END;

CREATE TABLE judgment (                         -- clustered by turn: one range scan fetches a turn
    query_id   INTEGER NOT NULL REFERENCES query (id),
    content_id INTEGER NOT NULL,                -- of `content`; no foreign key, which would scan every judgment at each deletion there
    score      REAL NOT NULL CHECK (score BETWEEN 0 AND 1),
    prior      REAL NOT NULL DEFAULT 0,
    pack       TEXT NOT NULL DEFAULT '',
    position   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (query_id, content_id)
) WITHOUT ROWID;

CREATE TABLE reason (
    query_id   INTEGER NOT NULL,
    content_id INTEGER NOT NULL,
    text       TEXT NOT NULL,
    PRIMARY KEY (query_id, content_id),
    FOREIGN KEY (query_id, content_id) REFERENCES judgment (query_id, content_id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE turn (
    id         TEXT PRIMARY KEY,
    thread     TEXT NOT NULL,
    turn_key   TEXT NOT NULL,
    judge      TEXT NOT NULL DEFAULT '',        -- judge key; with turn_key it finds the turn's judgments
    task       TEXT NOT NULL,
    moment     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(moment)),  -- errors, file, recent, scope: enough to continue it
    started_at REAL NOT NULL,
    tier       TEXT NOT NULL DEFAULT 'current' CHECK (tier IN ('current', 'topic', 'bulk')),
    answer     TEXT NOT NULL DEFAULT '',
    state      TEXT NOT NULL CHECK (state IN ('running', 'done', 'partial', 'failed', 'interrupted'))
) WITHOUT ROWID;
CREATE INDEX turn_by_time ON turn (started_at);
CREATE INDEX turn_by_key ON turn (turn_key, judge);

CREATE TABLE receipt (
    turn_id TEXT PRIMARY KEY REFERENCES turn (id) ON DELETE CASCADE,
    schema  INTEGER NOT NULL,
    body    TEXT NOT NULL CHECK (json_valid(body))
) WITHOUT ROWID;

CREATE TABLE call (                             -- one row an attempt; money is a decimal string, NULL is unpriced
    id            TEXT PRIMARY KEY,
    turn_id       TEXT NOT NULL,
    stage         TEXT NOT NULL,
    provider      TEXT NOT NULL,
    host          TEXT NOT NULL,
    model         TEXT NOT NULL,
    started_at    REAL NOT NULL,
    duration_s    REAL NOT NULL,
    outcome       TEXT NOT NULL,
    candidates    INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens  INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    reasoning_tokens    INTEGER NOT NULL,
    cost_usd      TEXT,
    estimated     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX call_by_turn ON call (turn_id);
CREATE INDEX call_by_time ON call (started_at);

CREATE TABLE reservation (                      -- dollars set aside for calls in flight
    id         TEXT PRIMARY KEY,
    turn_id    TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    leased_until REAL NOT NULL,
    amount_usd TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX reservation_by_turn ON reservation (turn_id);

CREATE TABLE spending (                         -- dollars charged to a turn by its settled calls
    turn_id   TEXT PRIMARY KEY,
    spent_usd TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE chars_per_token (                  -- learned from usage, per model; old calls fade
    model  TEXT PRIMARY KEY,
    chars  REAL NOT NULL,
    tokens REAL NOT NULL CHECK (tokens > 0)
) WITHOUT ROWID;

CREATE TABLE session_state (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    project_id     TEXT NOT NULL,
    active_task    TEXT NOT NULL DEFAULT '',
    active_ticket  TEXT NOT NULL DEFAULT '',
    files_open     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(files_open)),
    last_edit_file TEXT NOT NULL DEFAULT '',
    last_edit_line INTEGER NOT NULL DEFAULT 0,
    conversation_summary TEXT NOT NULL DEFAULT '',
    last_updated   REAL NOT NULL,
    branch         TEXT NOT NULL DEFAULT '',
    thread         TEXT NOT NULL DEFAULT ''
);

CREATE TABLE checkpoint (
    name       TEXT PRIMARY KEY,
    created_at REAL NOT NULL,
    payload    TEXT NOT NULL CHECK (json_valid(payload))
) WITHOUT ROWID;

CREATE TABLE event (                            -- append-only; erasure may blank a payload while meta says so
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      REAL NOT NULL,
    name    TEXT NOT NULL,
    subject TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(payload))
);
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
WHEN NOT EXISTS (SELECT 1 FROM meta WHERE key = 'erasing') OR NEW.payload <> '{}' OR NEW.id <> OLD.id
    OR NEW.at <> OLD.at OR NEW.name <> OLD.name
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE VIEW project_facts AS
    SELECT id, (SELECT value FROM meta WHERE key = 'store_id') AS project_id, kind AS category, key,
           json_object('text', text) AS value_json, importance, created_at, updated_at
    FROM memory WHERE layer = 'project' AND status = 'active';
CREATE VIEW user_preferences AS
    SELECT key, text AS value, confidence, source, updated_at AS last_seen
    FROM memory WHERE layer = 'user' AND kind = 'preference' AND status = 'active';
CREATE VIEW user_patterns AS
    SELECT id, coalesce(json_extract(attrs, '$.polarity'), 'pattern') AS type, text AS description,
           evidence_count, confidence, created_at AS first_seen, updated_at AS last_seen
    FROM memory WHERE layer = 'user' AND kind = 'pattern' AND status = 'active';
CREATE VIEW vector_chunks AS
    SELECT id, path, entity, start_line, end_line, text FROM memory WHERE layer = 'vector' AND status = 'active';
CREATE VIEW nodes AS
    SELECT id, 'symbol' AS type, path, entity AS name FROM memory WHERE layer = 'graph' AND status = 'active'
    UNION ALL
    SELECT id, 'slice', path, entity FROM memory WHERE layer = 'vector' AND status = 'active'
    UNION ALL
    SELECT 'f_' || path, 'file', path, path FROM file WHERE excluded = '';
CREATE VIEW decisions AS
    SELECT id, title, text AS description, json_extract(attrs, '$.rationale') AS rationale,
           json_extract(attrs, '$.alternatives') AS alternatives_json, json_extract(attrs, '$.links') AS links_json,
           source AS created_by, created_at
    FROM memory WHERE kind = 'decision' AND status = 'active';
